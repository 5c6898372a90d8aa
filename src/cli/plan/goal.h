// What runs of a plan are to reach: levels of a metric, and when a run reached them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace convoy::cli {

// A metric of the task.
struct KnownMetric {
  std::string name;
  bool higher_is_better = false;
  bool fraction = false;  // from 0 to 1, shown as a percentage
};

struct Goal {
  std::string metric;        // as the user names it: "loss", or "train_loss" for data.train
  std::string of_task;       // without the "train_"
  bool on_training = false;  // evaluated on data.train
  bool higher_is_better = false;
  std::vector<double> levels;  // the easiest first, each once

  double hardest() const { return levels.back(); }
  bool reached(double value, double level) const {
    return higher_is_better ? value >= level : value <= level;
  }
};

// From --target loss=0.1, or --targets 0.3,0.1 with or without --metric; those that are not given
// are empty. Throws UsageError for both or none, for what is no number, and for unknown metrics,
// naming the nearest. The metric is loss where it is not given; on training data unless
// `has_validation`.
struct GoalWords {
  std::string target, targets, metric;
};
Goal parse_goal(const GoalWords& words, const std::vector<KnownMetric>& known, bool has_validation);

// Values after so many updates, ascending.
using Curve = std::vector<std::pair<std::int64_t, double>>;

// For each level that the curve reaches, the updates until then: between the first evaluation that
// finds it and the one before, as if the metric changed evenly there.
std::vector<std::pair<double, std::int64_t>> reached_levels(const Goal& goal, const Curve& curve);

// The best value of a curve, or NaN.
double best_value(const Goal& goal, const Curve& curve);

}  // namespace convoy::cli
