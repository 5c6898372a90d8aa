#include "train/report/axes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace convoy::train {

Axis::Axis(Over over, std::span<const RunRecord> runs) : over_(over) {
  for (const RunRecord& run : runs) {
    for (const double x : column(run)) most_ = std::fmax(most_, x);
    if (over == Over::time && !column(run).empty()) most_ = std::fmax(most_, run.elapsed_s());
  }
  constexpr double kMinute = 60, kHour = 3600, kThousand = 1000;
  switch (over) {
    case Over::steps:
      unit_ = most_ >= 20 * kThousand ? kThousand : 1;
      label_ = unit_ > 1 ? "steps (thousands)" : "steps";
      break;
    case Over::epochs:
      label_ = "epochs";
      break;
    case Over::time:
      unit_ = most_ < 3 * kMinute ? 1 : most_ < 3 * kHour ? kMinute : kHour;
      label_ = unit_ == 1 ? "seconds" : unit_ == kMinute ? "minutes" : "hours";
      break;
  }
  most_ /= unit_;
}

const std::vector<double>& Axis::column(const RunRecord& run) const {
  if (over_ == Over::epochs) return run.steps.epoch;
  return over_ == Over::time ? run.steps.elapsed_s : run.steps.step;
}

std::vector<double> Axis::of_steps(const RunRecord& run) const {
  std::vector<double> x = column(run);
  for (double& value : x) value /= unit_;
  return x;
}

double Axis::at(const RunRecord& run, std::int64_t step) const {
  const auto& steps = run.steps.step;
  if (over_ == Over::steps) return static_cast<double>(step) / unit_;
  // The last that was recorded by then: rows may be many steps apart.
  const auto after = std::upper_bound(steps.begin(), steps.end(), static_cast<double>(step));
  if (after == steps.begin()) return std::numeric_limits<double>::quiet_NaN();
  return column(run)[static_cast<std::size_t>(after - steps.begin()) - 1] / unit_;
}

double Axis::of_evaluation(const RunRecord& run, const EvaluationRecord& evaluation) const {
  if (over_ == Over::time && std::isfinite(evaluation.elapsed_s))
    return evaluation.elapsed_s / unit_;
  return at(run, evaluation.step);
}

}  // namespace convoy::train
