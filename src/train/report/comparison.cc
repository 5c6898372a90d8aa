// What only several runs have.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "convoy/base/units.h"
#include "train/report/curve.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

using Runs = std::vector<RunRecord>;

std::string label(const Runs& runs, std::size_t i) {
  return "<span class=\"key\" style=\"margin:0;color:inherit\"><i style=\"background:var(" +
         Color::series(i).variable() + ")\"></i>" + escaped(runs[i].label) + "</span>";
}

double value_of(const EvaluationRecord& e, const MetricInfo& metric) {
  const auto found = e.metrics.find(metric.name);
  return found == e.metrics.end() ? std::nan("") : found->second;
}

bool reaches(const MetricInfo& metric, double value, double level) {
  return metric.higher_is_better ? value >= level : value <= level;
}

// The first evaluation that is as good; null if none is.
const EvaluationRecord* first_at(const RunRecord& run, const MetricInfo& metric, double level) {
  for (const EvaluationRecord& e : run.evaluations) {
    if (reaches(metric, value_of(e, metric), level)) return &e;
  }
  return nullptr;
}

// Round numbers among which the interesting ones of a percentage are.
std::vector<double> percentages() {
  std::vector<double> levels;
  for (int i = 1; i < 90; ++i) levels.push_back(i * 0.01);
  for (int i = 900; i < 990; i += 5) levels.push_back(i * 0.001);
  for (int i = 990; i < 1000; ++i) levels.push_back(i * 0.001);
  return levels;
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 2);
  return std::round(value / unit) * unit;
}

// Up to 5, from what the first evaluations had to what the best run reached, the hardest last.
std::vector<double> levels_of(const Runs& runs, const MetricInfo& metric) {
  double from = std::nan(""), best = std::nan(""), worst = std::nan("");
  const auto better = [&metric](double a, double b) {
    return metric.higher_is_better ? std::fmax(a, b) : std::fmin(a, b);
  };
  for (const RunRecord& run : runs) {
    double mine = std::nan("");
    for (const EvaluationRecord& e : run.evaluations) {
      const double value = value_of(e, metric);
      if (std::isfinite(value) && std::isnan(mine))
        from = std::isnan(from) ? value : -better(-from, -value);
      mine = better(mine, value);
    }
    best = better(best, mine);
    if (std::isfinite(mine)) worst = std::isnan(worst) ? mine : -better(-worst, -mine);
  }
  if (!std::isfinite(from) || !std::isfinite(best)) return {};
  constexpr int kLevels = 5;
  std::set<double> levels;
  for (int i = 0; i < kLevels; ++i) {
    const double wanted = from + (best - from) * i / (kLevels - 1);
    double level = rounded(wanted);
    if (metric.percent) {
      for (const double round : percentages()) {
        if (metric.higher_is_better ? round <= wanted + 1e-12 : round >= wanted - 1e-12) {
          level = round;
          if (!metric.higher_is_better) break;
        }
      }
    } else if (!reaches(metric, best, level)) {
      level = best;
    }
    levels.insert(level);
  }
  // The hardest that all of the runs reached.
  if (std::isfinite(worst)) levels.insert(metric.percent ? std::floor(worst * 1000) / 1000 : worst);
  std::vector<double> sorted(levels.begin(), levels.end());
  if (!metric.higher_is_better) std::reverse(sorted.begin(), sorted.end());
  return sorted;
}

std::string level_text(const MetricInfo& metric, double level) {
  char text[48];
  const char* sign = metric.higher_is_better ? "≥" : "≤";
  if (metric.percent)
    std::snprintf(text, sizeof text, "%s %.4g%%", sign, 100 * level);
  else
    std::snprintf(text, sizeof text, "%s %.4g", sign, level);
  return text;
}

std::vector<std::string> row_of_level(const Runs& runs, const MetricInfo& metric, double level) {
  std::vector<std::string> row{level_text(metric, level)};
  double fastest = std::nan("");
  for (const RunRecord& run : runs) {
    const EvaluationRecord* at = first_at(run, metric, level);
    if (at != nullptr) fastest = std::fmin(fastest, at->elapsed_s);
  }
  for (const RunRecord& run : runs) {
    const EvaluationRecord* at = first_at(run, metric, level);
    if (at == nullptr) {
      row.emplace_back("<span class=\"soft\">–</span>");
      continue;
    }
    std::string text = std::isfinite(at->elapsed_s) ? time_text(at->elapsed_s) : "";
    if (at->elapsed_s <= fastest) text = "<b>" + text + "</b>";
    row.push_back(text + " <span class=\"soft\">step " + count_text(static_cast<double>(at->step)) +
                  "</span>");
  }
  return row;
}

struct Scaled {
  std::size_t run = 0;
  double ranks = 0, rate = 0, batch = 0;
};

// Runs of the same network on different numbers of ranks, the fewest first.
std::vector<std::vector<Scaled>> scaled_groups(const Runs& runs) {
  std::map<std::string, std::vector<Scaled>> by_network;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double ranks = runs[i].number("ranks"), rate = usual_rate(runs[i]);
    if (!(ranks > 0) || !(rate > 0)) continue;
    const std::string what =
        runs[i].text("model") + "\n" + count_text(runs[i].number("parameters")) + "\n" +
        runs[i].text("device") + "\n" + runs[i].text("precision") + "\n" + runs[i].unit;
    by_network[what].push_back({i, ranks, rate, runs[i].number("batch")});
  }
  std::vector<std::vector<Scaled>> groups;
  for (auto& [what, group] : by_network) {
    std::sort(group.begin(), group.end(), [](const Scaled& a, const Scaled& b) {
      return std::pair(a.ranks, a.run) < std::pair(b.ranks, b.run);
    });
    if (group.front().ranks < group.back().ranks) groups.push_back(std::move(group));
  }
  return groups;
}

// Of runs on the same number of ranks.
double rate_at(const std::vector<Scaled>& group, double ranks) {
  std::vector<double> rates;
  for (const Scaled& one : group) {
    if (one.ranks == ranks) rates.push_back(one.rate);
  }
  return median_of(std::move(rates));
}

std::string kind_of(const std::vector<Scaled>& group) {
  const auto all = [&group](auto&& value) {
    return std::all_of(group.begin(), group.end(), [&](const Scaled& one) {
      return std::fabs(value(one) - value(group.front())) < 1e-9;
    });
  };
  if (all([](const Scaled& one) { return one.batch; }))
    return "the same batch on all of them (strong scaling)";
  if (all([](const Scaled& one) { return one.batch / one.ranks; }))
    return "the same batch on each rank (weak scaling)";
  return "batches differ";
}

Plot scaling_plot(const std::vector<Scaled>& group, bool efficiency) {
  const double base = group.front().ranks, most = group.back().ranks;
  const double per_rank = rate_at(group, base) / base;
  Plot plot{.description = efficiency ? "efficiency over ranks" : "speed-up over ranks",
            .x_label = "ranks",
            .x_least = 0,
            .x_most = most + 0.5,
            .y_least = 0,
            .y_most = {},
            .whole_x = most <= 16,
            .marks = {},
            .series = {}};
  const double ideal = efficiency ? 100 : most / base;
  plot.y_most = 1.08 * ideal;
  plot.series.push_back({.color = Color::ideal(),
                         .x = {base, most},
                         .y = {efficiency ? 100.0 : 1.0, ideal},
                         .y2 = {},
                         .dashed = true});
  Series measured{.style = Series::Style::line_and_points,
                  .color = Color::series(0),
                  .x = {},
                  .y = {},
                  .y2 = {}};
  for (const Scaled& one : group) {
    if (!measured.x.empty() && measured.x.back() == one.ranks) continue;
    const double up = rate_at(group, one.ranks) / (per_rank * base);
    measured.x.push_back(one.ranks);
    measured.y.push_back(efficiency ? 100 * up * base / one.ranks : up);
    plot.y_most = std::max(*plot.y_most, 1.08 * measured.y.back());
  }
  plot.series.push_back(std::move(measured));
  return plot;
}

std::string figure(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

void add_overview(Page& page, const Runs& runs) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const EvaluationRecord* best = best_evaluation(run);
    const MetricInfo* metric = run.metric(run.best);
    const double rate = usual_rate(run);
    rows.push_back({label(runs, i), state_of(run), escaped(run.text("model")),
                    count_text(run.number("ranks")), count_text(run.number("batch")),
                    run.steps.epoch.empty() ? "" : number_text(run.steps.epoch.back()),
                    run.elapsed_s() > 0 ? time_text(run.elapsed_s()) : "",
                    std::isfinite(rate) ? number_text(rate) + " " + escaped(run.unit) + "/s" : "",
                    best == nullptr ? ""
                                    : escaped(metric->title) + " " +
                                          metric_text(*metric, value_of(*best, *metric))});
  }
  page.add(table(
      {"run", "state", "model", "ranks", "batch", "epochs", "time", "throughput", "best"}, rows));
}

void add_times_to_levels(Page& page, const Runs& runs) {
  const auto with = std::find_if(runs.begin(), runs.end(),
                                 [](const RunRecord& run) { return !run.best.empty(); });
  if (with == runs.end()) return;
  const MetricInfo& metric = *with->metric(with->best);
  const std::vector<double> levels = levels_of(runs, metric);
  if (levels.empty()) return;
  std::vector<std::string> head{escaped(metric.title)};
  for (std::size_t i = 0; i < runs.size(); ++i) head.push_back(label(runs, i));
  std::vector<std::vector<std::string>> rows;
  for (const double level : levels) rows.push_back(row_of_level(runs, metric, level));
  page.add("<h2>Time to " + escaped(metric.title) +
           "</h2>\n<p class=\"soft\">Time of training "
           "until the first evaluation that was as good; the fastest is bold.</p>\n" +
           table(head, rows));
}

void add_scaling(Page& page, const Runs& runs) {
  for (const std::vector<Scaled>& group : scaled_groups(runs)) {
    const double base = group.front().ranks;
    const double per_rank = rate_at(group, base) / base;
    page.add("<h2>Scaling of " + escaped(runs[group.front().run].text("model")) +
             "</h2>\n<p class=\"soft\">Throughput against that on " + count_text(base) +
             (base == 1 ? " rank; " : " ranks; ") + kind_of(group) + ".</p>\n");
    page.begin_row();
    for (const bool efficiency : {false, true}) {
      page.picture(efficiency ? "Efficiency, %" : "Speed-up",
                   {{Color::series(0), "measured"}, {Color::ideal(), "ideal"}},
                   scaling_plot(group, efficiency));
    }
    page.end_row();
    std::vector<std::vector<std::string>> rows;
    for (const Scaled& one : group) {
      const double up = one.rate / (per_rank * base);
      rows.push_back({label(runs, one.run), count_text(one.ranks), count_text(one.batch),
                      number_text(one.rate) + " " + escaped(runs[one.run].unit) + "/s",
                      figure("%.2f", up), figure("%.2f", one.ranks / base),
                      figure("%.0f%%", 100 * up * base / one.ranks)});
    }
    page.add(
        table({"run", "ranks", "batch", "throughput", "speed-up", "ideal", "efficiency"}, rows));
  }
}

}  // namespace convoy::train
