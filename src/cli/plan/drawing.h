// Parts of a plan's pictures.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cli/drawing.h"
#include "cli/plan/report.h"
#include "convoy/base/error.h"
#include "convoy/plan/machine.h"

namespace convoy::cli {

// Between two values of x, from bottom to top.
inline Series shade(Color color, double from, double to, double bottom, double top) {
  Series series = series_of(Series::Style::band, color, {from, to}, {bottom, bottom});
  series.y2 = {top, top};
  return series;
}

// `count` values from `low` to `high`, evenly apart in their logarithms.
inline std::vector<double> spread(double low, double high, int count = 160) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i)
    values.push_back(low * std::pow(high / low, static_cast<double>(i) / (count - 1)));
  return values;
}

// f of each.
template <class F>
std::vector<double> each(const std::vector<double>& x, const F& f) {
  std::vector<double> y;
  for (const double value : x) y.push_back(f(value));
  return y;
}

// What a formula says, or nothing where it has nothing to say.
template <class F>
double value_or_none(const F& formula) {
  try {
    return formula();
  } catch (const UsageError&) {
    return kNone;
  }
}

inline double largest_measured(const PlanReport& report) {
  std::int64_t most = 1;
  for (const plan::PointRun& run : report.points.runs) most = std::max(most, run.batch);
  return static_cast<double>(most);
}

inline double smallest_measured(const PlanReport& report) {
  double least = static_cast<double>(report.samples);
  for (const plan::PointRun& run : report.points.runs)
    least = std::min(least, static_cast<double>(run.batch));
  return least;
}

// With powers of 2 at logarithmic axes.
inline Plot blank_in_halves(std::string description, std::string x_label) {
  Plot plot = blank(std::move(description), std::move(x_label));
  plot.halves = true;
  return plot;
}

// Seconds of an update, not counting that samples are whole.
inline double update_seconds(const plan::Machine& machine, double batch, std::int64_t workers) {
  return value_or_none([&] {
    return plan::compute_seconds(machine, batch / static_cast<double>(workers), workers) +
           plan::communication_seconds(machine.communication, workers);
  });
}

inline const LevelAnswer& hardest(const PlanReport& report) { return report.answers.levels.back(); }
inline const plan::Machine& machine_of(const PlanReport& report) {
  return report.answers.machine.machine.machine;
}

}  // namespace convoy::cli
