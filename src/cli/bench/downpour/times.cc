// Figure 5.
#include <algorithm>
#include <cmath>
#include <map>

#include "cli/bench/downpour/pictures.h"
#include "cli/bench/downpour/table.h"
#include "cli/drawing.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using train::Legend;
using train::Page;

// Runs that differ in nothing but their seed.
struct Point {
  int replicas = 1;
  // Of the middle one, or of two the later; not a number where that never got there.
  double seconds = kNone;
  double cores = kNone;
};

// Of a method, the fastest for each number of replicas.
std::vector<Point> line_of(const ComparedRuns& runs, Method method) {
  using Key = std::pair<int, std::pair<std::int64_t, std::int64_t>>;
  std::map<Key, std::vector<const ComparedRun*>> groups;
  for (const ComparedRun& run : runs.runs) {
    const Arm& arm = *run.arm;
    if (arm.method == method) groups[{arm.replicas, {arm.n_fetch, arm.n_push}}].push_back(&run);
  }
  std::map<int, Point> best;
  for (const auto& [key, group] : groups) {
    std::vector<const ComparedRun*> runs_of_seeds = group;
    const auto seconds = [](const ComparedRun* run) {
      const double at = number_in(run->row, "level_s");
      return std::isfinite(at) ? at : HUGE_VAL;
    };
    const auto middle =
        runs_of_seeds.begin() + static_cast<std::ptrdiff_t>(runs_of_seeds.size() / 2);
    std::nth_element(runs_of_seeds.begin(), middle, runs_of_seeds.end(),
                     [&](auto* a, auto* b) { return seconds(a) < seconds(b); });
    const Point point{key.first, number_in((*middle)->row, "level_s"),
                      number_in((*middle)->row, "cores_used")};
    const auto [there, is_new] = best.emplace(key.first, point);
    if (!is_new && !(there->second.seconds <= point.seconds) && std::isfinite(point.seconds))
      there->second = point;
  }
  std::vector<Point> line;
  for (const auto& [replicas, point] : best) line.push_back(point);
  return line;
}

TimeUnit unit_of(const ComparedRuns& runs) {
  double most = 0;
  for (const ComparedRun& run : runs.runs) most = std::fmax(most, number_in(run.row, "level_s"));
  return time_unit(std::max(most, 1.0));
}

Plot plot_of(const ComparedRuns& runs, bool by_cores, const TimeUnit& unit) {
  const char* of = by_cores ? "cores in use" : "replicas";
  Plot plot = blank(std::string("time to the level against ") + of, of);
  plot.y_least = 0;
  double most = 0;
  for (const ComparedRun& run : runs.runs)
    most = std::fmax(most, by_cores ? number_in(run.row, "cores_used") : run.arm->replicas);
  const double beside = 0.02 * most;
  const auto x_of = [&](const Point& point) {
    return by_cores ? point.cores : static_cast<double>(point.replicas);
  };
  // Those of one number stand beside each other at the upper edge.
  std::map<double, int> missing;
  for (const Method method : kMethods) {
    Series reached = series_of(Series::Style::line_and_points, color_of(method), {}, {});
    for (const Point& point : line_of(runs, method)) {
      if (std::isfinite(point.seconds)) {
        reached.x.push_back(x_of(point));
        reached.y.push_back(point.seconds / unit.seconds);
      } else if (std::isfinite(x_of(point))) {
        plot.marks.push_back({.x = x_of(point) + beside * missing[x_of(point)]++,
                              .where = Mark::Where::top,
                              .color = color_of(method)});
      }
    }
    plot.series.push_back(std::move(reached));
  }
  plot.x_least = 0;
  plot.x_most = by_cores ? 1.1 * most : most + 0.5;
  plot.whole_x = !by_cores && most <= 16;
  return plot;
}

std::string missing_of(const ComparedRuns& runs) {
  std::string list;
  for (const ComparedRun& run : runs.runs) {
    if (std::isfinite(number_in(run.row, "level_s"))) continue;
    const double best = number_in(run.row, "best");
    const std::string state = run.row.value("state", "");
    list += "<li>" + train::escaped(full_title(*run.arm, runs.arms())) + ": ";
    if (state != "done" && state != "target") list += train::escaped(state) + ", ";
    list += std::isfinite(best) && runs.metric() != nullptr
                ? "came to " + train::metric_text(*runs.metric(), best)
                : "no evaluation";
    list += "</li>\n";
  }
  return list;
}

}  // namespace

void add_times(Page& page, const ComparedRuns& runs) {
  const std::string level = level_text(runs.metric(), *runs.level);
  const TimeUnit unit = unit_of(runs);
  const std::string missing = missing_of(runs);
  std::vector<Legend> legend;
  for (const Method method : kMethods) {
    if (!line_of(runs, method).empty()) legend.push_back({color_of(method), title(method)});
  }
  page.add(
      "<p class=\"soft\">Figure 5 of Dean et al. 2012. Of each method and number of replicas the "
      "fastest setting; of several "
      "seeds the middle one, of two the later.</p>\n");
  const bool none = std::none_of(runs.runs.begin(), runs.runs.end(), [](const ComparedRun& run) {
    return std::isfinite(number_in(run.row, "level_s"));
  });
  if (none) {
    page.add("<p>No run reached it:</p>\n<ul>" + missing + "</ul>\n");
    return;
  }
  page.begin_row();
  for (const bool by_cores : {false, true}) {
    page.picture(std::string("Time to ") + level + " against " +
                     (by_cores ? "cores in use, " : "replicas, ") + unit.name,
                 legend, plot_of(runs, by_cores, unit));
  }
  page.end_row();
  if (!missing.empty())
    page.add("<p>Never reached it (short lines at the upper edge):</p>\n<ul>" + missing +
             "</ul>\n");
}

}  // namespace convoy::cli
