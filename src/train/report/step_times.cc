// Where the time of steps went, over the run and by rank.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "train/report/axes.h"
#include "train/report/curve.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

constexpr std::size_t kStepPieces = 100;
constexpr std::size_t kMostLines = 16;  // ranks that have a line each
constexpr double kMillisecond = 1e-3;
constexpr double kStandsOut = 0.05;  // above the median
// From below: what is a rank's own, then waiting for others, so that ranks can be compared.
constexpr std::array<std::size_t, kPhases> kFromBelow{kForward, kBackward, kUpdate, kDataWait,
                                                      kCommunication};

// Means per step, of each phase, in milliseconds.
using Phases = std::array<double, kPhases>;

std::vector<Legend> phase_legend() {
  std::vector<Legend> legend;
  for (const std::size_t i : kFromBelow) legend.push_back({Color::phase(i), kPhaseNames[i]});
  return legend;
}

struct PhaseCurves {
  std::vector<double> x;
  std::array<std::vector<double>, kPhases> y;  // milliseconds
};

// Of all ranks, or of rank 0 for runs without their times.
PhaseCurves phases_over_steps(const RunRecord& run, const Axis& axis) {
  PhaseCurves curves;
  if (run.ranks.empty()) {
    curves.x = axis.of_steps(run);
    curves.y = run.steps.phases;
    for (auto& phase : curves.y) {
      for (double& seconds : phase) seconds /= kMillisecond;
    }
    return curves;
  }
  for (const RankTimesRecord& row : run.ranks) {
    curves.x.push_back(axis.at(run, row.step));
    const double all = static_cast<double>(row.steps) * static_cast<double>(row.ranks.size());
    for (std::size_t i = 0; i < kPhases; ++i) {
      double sum = 0;
      for (const PhaseSeconds& rank : row.ranks) sum += rank[i];
      curves.y[i].push_back(sum / all / kMillisecond);
    }
  }
  return curves;
}

Curve few(const std::vector<double>& x, const std::vector<double>& y) {
  Curve curve = means(x, y, kStepPieces);
  return curve.x.empty() ? Curve{x, y} : curve;
}

void stack(Plot& plot, PhaseCurves curves) {
  std::vector<double> below;
  for (const std::size_t i : kFromBelow) {
    // What wasn't recorded adds nothing: every phase has the same points, to lie on the one below.
    for (double& y : curves.y[i]) y = std::isfinite(y) ? y : 0;
    Curve phase = few(curves.x, curves.y[i]);
    below.resize(phase.y.size(), 0);
    std::vector<double> above = below;
    for (std::size_t k = 0; k < above.size(); ++k) above[k] += phase.y[k];
    plot.series.push_back({.style = Series::Style::band,
                           .color = Color::phase(i),
                           .x = std::move(phase.x),
                           .y = below,
                           .y2 = above});
    below = std::move(above);
  }
}

Plot plot_over(const Axis& axis, const std::string& what) {
  return {.description = what,
          .x_label = axis.label(),
          .x_least = 0,
          .x_most = axis.most(),
          .y_least = 0,
          .y_most = {},
          .marks = {},
          .series = {}};
}

// Per step, of each rank, without the first gathering where there are others: memory is new then.
std::vector<Phases> by_rank(const RunRecord& run) {
  std::vector<Phases> ranks(run.ranks.front().ranks.size());
  double steps = 0;
  for (std::size_t i = run.ranks.size() > 1 ? 1 : 0; i < run.ranks.size(); ++i) {
    steps += static_cast<double>(run.ranks[i].steps);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (std::size_t k = 0; k < kPhases; ++k)
        ranks[r][k] += run.ranks[i].ranks[r][k] / kMillisecond;
    }
  }
  for (Phases& rank : ranks) {
    for (double& phase : rank) phase /= steps;
  }
  return ranks;
}

std::size_t slowest_of(const std::vector<Phases>& ranks) {
  return static_cast<std::size_t>(
      std::max_element(ranks.begin(), ranks.end(),
                       [](const Phases& a, const Phases& b) { return own(a) < own(b); }) -
      ranks.begin());
}

// How much longer its own time is than the median of all.
double excess_of(const std::vector<Phases>& ranks, std::size_t rank) {
  std::vector<double> all;
  for (const Phases& one : ranks) all.push_back(own(one));
  return own(ranks[rank]) / median_of(all) - 1;
}

Plot bars(const std::vector<Phases>& ranks, std::optional<std::size_t> slowest) {
  Plot plot{.description = "time per step by phase, of each rank",
            .x_label = "rank",
            .x_least = -0.7,
            .x_most = static_cast<double>(ranks.size()) - 0.3,
            .y_least = 0,
            .y_most = {},
            .whole_x = ranks.size() <= kMostLines,
            .marks = {},
            .series = {}};
  std::vector<double> x, below(ranks.size(), 0);
  for (std::size_t r = 0; r < ranks.size(); ++r) x.push_back(static_cast<double>(r));
  for (const std::size_t phase : kFromBelow) {
    std::vector<double> above = below;
    for (std::size_t r = 0; r < ranks.size(); ++r) above[r] += ranks[r][phase];
    plot.series.push_back({.style = Series::Style::bars,
                           .color = Color::phase(phase),
                           .x = x,
                           .y = below,
                           .y2 = above});
    below = std::move(above);
  }
  if (slowest) {
    const double top = *std::max_element(below.begin(), below.end());
    plot.y_most = 1.12 * top;
    plot.series.push_back({.style = Series::Style::points,
                           .color = Color::mark(),
                           .x = {static_cast<double>(*slowest)},
                           .y = {below[*slowest] + 0.05 * top},
                           .y2 = {}});
  }
  return plot;
}

// Own times of the ranks over steps: a line each, or for many the range that they are in.
void own_times(Plot& plot, const RunRecord& run, const Axis& axis, std::size_t slowest) {
  const std::size_t count = run.ranks.front().ranks.size();
  std::vector<double> x, least, most;
  std::vector<std::vector<double>> y(count);
  for (const RankTimesRecord& row : run.ranks) {
    x.push_back(axis.at(run, row.step));
    double low = 0, high = 0;
    for (std::size_t r = 0; r < count; ++r) {
      const double mine = own(row.ranks[r]) / static_cast<double>(row.steps) / kMillisecond;
      y[r].push_back(mine);
      low = r == 0 ? mine : std::min(low, mine);
      high = std::max(high, mine);
    }
    least.push_back(low);
    most.push_back(high);
  }
  if (count > kMostLines) {
    Curve low = few(x, least), high = few(x, most);
    plot.series.push_back({.style = Series::Style::band,
                           .color = Color::pale(0),
                           .x = std::move(low.x),
                           .y = std::move(low.y),
                           .y2 = std::move(high.y)});
  }
  for (std::size_t r = 0; r < count; ++r) {
    if (r == slowest || count > kMostLines) continue;
    Curve line = thin(x, y[r], kStepPieces / 2);
    plot.series.push_back({.color = Color::pale(0),
                           .x = std::move(line.x),
                           .y = std::move(line.y),
                           .y2 = {},
                           .width = 1.2});
  }
  Curve line = thin(x, y[slowest], kStepPieces);
  plot.series.push_back({.color = Color::mark(),
                         .x = std::move(line.x),
                         .y = std::move(line.y),
                         .y2 = {},
                         .width = 1.6});
}

std::string host_of(const RunRecord& run, std::size_t rank) {
  const std::vector<std::string> hosts = run.hosts();
  return rank < hosts.size() ? escaped(hosts[rank]) : "";
}

void add_rank_table(Page& page, const RunRecord& run, const std::vector<Phases>& ranks,
                    std::size_t slowest) {
  constexpr std::size_t kMostRows = 512;
  std::vector<std::string> head{"rank", "host"};
  for (const char* name : kPhaseNames) head.push_back(std::string(name) + ", ms");
  head.emplace_back("own, ms");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t r = 0; r < ranks.size() && r < kMostRows; ++r) {
    const std::string number = std::to_string(r);
    std::vector<std::string> row{r == slowest && ranks.size() > 1
                                     ? "<span class=\"slowest\">" + number + " slowest</span>"
                                     : number,
                                 host_of(run, r)};
    for (const double phase : ranks[r]) row.push_back(number_text(phase));
    row.push_back(number_text(own(ranks[r])));
    rows.push_back(std::move(row));
  }
  page.add("<details><summary>Time per step of each rank</summary>\n" + table(head, rows) +
           "</details>\n");
}

void add_warnings(Page& page, const RunRecord& run) {
  if (run.slow_ranks.empty()) return;
  std::string html = "<ul>\n";
  for (const SlowRankRecord& slow : run.slow_ranks) {
    html += "<li>step " + count_text(static_cast<double>(slow.step)) + ": rank " +
            count_text(slow.rank) + " on host " + escaped(slow.host) +
            " held the others up: " + time_text(slow.own_s) + " of its own a step, the others " +
            time_text(slow.others_s) + "; most of it in " + escaped(slow.phase) + "</li>\n";
  }
  page.add(html + "</ul>\n");
}

}  // namespace

void add_step_times(Page& page, const RunRecord& run) {
  // Replicas of a batch optimization have no steps: add_groups() shows their time.
  if (run.steps.step.empty() || !run.iterations.empty()) return;
  page.add("<h3>Where the time of a step went</h3>\n");
  const Axis axis(Over::steps, {&run, 1});
  const PhaseCurves curves = phases_over_steps(run, axis);
  page.begin_row();
  Plot over_run = plot_over(axis, "time per step by phase, over the run");
  stack(over_run, curves);
  page.picture(run.ranks.empty() ? "Phases of rank 0 over the run, ms per step"
                                 : "Phases over the run, mean of the ranks, ms per step",
               phase_legend(), std::move(over_run));
  if (run.ranks.empty()) {
    page.end_row();
    return;
  }
  const std::vector<Phases> ranks = by_rank(run);
  const std::size_t slowest = slowest_of(ranks);
  const double excess = excess_of(ranks, slowest);
  const bool stands_out = ranks.size() > 1 && excess > kStandsOut;
  std::vector<Legend> legend = phase_legend();
  if (stands_out) {
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.0f%%", 100 * excess);
    const std::string host = host_of(run, slowest);
    legend.push_back({Color::mark(), "slowest: rank " + std::to_string(slowest) +
                                         (host.empty() ? "" : " on " + host) + ", " + percent +
                                         " above the median"});
  }
  page.picture("Phases by rank, ms per step", legend,
               bars(ranks, stands_out ? std::optional(slowest) : std::nullopt));
  if (ranks.size() > 1) {
    Plot plot = plot_over(axis, "time of its own per step, of each rank, over the run");
    own_times(plot, run, axis, slowest);
    page.picture("Each rank's own time, without waiting for others, ms per step",
                 {{Color::mark(), "rank " + std::to_string(slowest) + ", whose was longest"},
                  {Color::pale(0), "the others"}},
                 std::move(plot));
  }
  page.end_row();
  add_warnings(page, run);
  add_rank_table(page, run, ranks, stands_out ? slowest : ranks.size());
}

}  // namespace convoy::train
