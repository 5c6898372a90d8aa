#include "cli/plan/goal.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/toml_text.h"
#include "cli/plan/numbers.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"

namespace convoy::cli {
namespace {

constexpr std::string_view kOnTraining = "train_";

KnownMetric choose_metric(const std::string& name, const std::vector<KnownMetric>& known,
                          Goal& goal) {
  goal.metric = name;
  std::vector<std::string> names;
  for (const bool training : {false, true}) {
    for (const KnownMetric& metric : known) {
      names.push_back((training ? std::string(kOnTraining) : "") + metric.name);
      if (names.back() != name) continue;
      goal.of_task = metric.name;
      goal.on_training = training;
      goal.higher_is_better = metric.higher_is_better;
      return metric;
    }
  }
  std::string all;
  for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
  const std::string near = nearest_name(name, names);
  throw UsageError("there is no metric '" + name + "'; there are " + all +
                   (near.empty() ? "" : " (did you mean " + near + "?)"));
}

// How far from `before` to `after` a level between them is: evenly, and for what falls and is above
// 0 (a loss) evenly in its logarithm, as it falls the slower the lower it is.
double part_until(const Goal& goal, double before, double after, double level) {
  const bool falls = !goal.higher_is_better && after > 0 && level > 0;
  if (falls) return std::log(level / before) / std::log(after / before);
  return (level - before) / (after - before);  // in (0, 1]
}

// Levels that no training reaches, or that each one has from the beginning.
void check_fractions(const Goal& goal, const char* option) {
  for (const double level : goal.levels) {
    if (level >= 0 && level <= 1) continue;
    throw UsageError(std::string(option) + ": " + shortest(level) + ", but " + goal.metric +
                     " is a fraction, from 0 to 1" +
                     (level > 1 && level <= 100
                          ? ": " + shortest(level) + "% is " + shortest(level / 100)
                          : ""));
  }
}

}  // namespace

Goal parse_goal(const GoalWords& words, const std::vector<KnownMetric>& known,
                bool has_validation) {
  if (words.target.empty() == words.targets.empty()) {
    throw UsageError(words.target.empty()
                         ? "what is to be reached? Give --targets 0.3,0.1 or --target loss=0.1"
                         : "--target and --targets contradict each other; give one of them");
  }
  Goal goal;
  std::string metric = words.metric;
  std::string levels = words.targets;
  const char* option = "--targets";
  if (!words.target.empty()) {
    option = "--target";
    const std::size_t equals = words.target.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("--target " + words.target + ": write it as METRIC=LEVEL, as loss=0.1");
    if (!metric.empty()) throw UsageError("--target names its metric; leave --metric out");
    metric = words.target.substr(0, equals);
    levels = words.target.substr(equals + 1);
  }
  if (metric.empty()) metric = has_validation ? "loss" : std::string(kOnTraining) + "loss";
  const bool fraction = choose_metric(metric, known, goal).fraction;
  if (!goal.on_training && !has_validation) {
    throw UsageError("the recipe has no [data.validation] for the metric " + goal.metric +
                     "; train_" + goal.of_task + " is that of the training data");
  }
  goal.levels = parse_numbers(levels, option);
  if (fraction) check_fractions(goal, option);
  std::sort(goal.levels.begin(), goal.levels.end());
  if (!goal.higher_is_better) std::reverse(goal.levels.begin(), goal.levels.end());
  goal.levels.erase(std::unique(goal.levels.begin(), goal.levels.end()), goal.levels.end());
  return goal;
}

std::vector<std::pair<double, std::int64_t>> reached_levels(const Goal& goal, const Curve& curve) {
  std::vector<std::pair<double, std::int64_t>> reached;
  for (const double level : goal.levels) {
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const auto [step, value] = curve[i];
      if (!goal.reached(value, level)) continue;
      std::int64_t at = step;
      if (i > 0 && std::isfinite(curve[i - 1].second)) {
        const auto [before, worse] = curve[i - 1];
        const double part = part_until(goal, worse, value, level);
        at = before +
             static_cast<std::int64_t>(std::ceil(part * static_cast<double>(step - before) - 1e-9));
        at = std::clamp(at, before + 1, step);
      }
      reached.emplace_back(level, at);
      break;
    }
  }
  return reached;
}

double best_value(const Goal& goal, const Curve& curve) {
  double best = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [step, value] : curve) {
    if (std::isnan(best) || goal.reached(value, best)) best = value;
  }
  return best;
}

}  // namespace convoy::cli
