#include "train/tasks/metrics.h"

#include "base/toml_text.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"

namespace convoy::train {
namespace {

// The metric of this name; `key` is what names it.
Metric metric_of(const Task& task, const Recipe& recipe, const std::string& key,
                 const std::string& wanted) {
  std::vector<std::string> names;
  std::string known;
  for (const Metric& metric : task.metrics()) {
    if (metric.name == wanted) return metric;
    names.push_back(metric.name);
    known += (known.empty() ? "" : ", ") + metric.name;
  }
  const std::string near = nearest_name(wanted, names);
  throw UsageError(key + " is '" + wanted + "', but the task " + recipe.task.name +
                   " has no such metric; it has " + known +
                   (near.empty() ? "" : " (did you mean " + near + "?)"));
}

}  // namespace

std::optional<Metric> target_metric(const Recipe& recipe, const Task& task) {
  const std::string& wanted = recipe.training.target.metric;
  if (wanted.empty()) return std::nullopt;
  Metric metric = metric_of(task, recipe, "training.target.metric", wanted);
  const double level = recipe.training.target.level;
  if (metric.percent && (level < 0 || level > 1)) {
    throw UsageError("training.target.level is " + shortest(level) + ", but " + wanted +
                     " is a fraction, from 0 to 1" +
                     (level > 1 && level <= 100
                          ? ": " + shortest(level) + "% is " + shortest(level / 100)
                          : ""));
  }
  return metric;
}

std::string best_metric(const Recipe& recipe, const Task& task) {
  const std::string& wanted = recipe.checkpoint.best;
  if (!wanted.empty()) return metric_of(task, recipe, "checkpoint.best", wanted).name;
  if (const auto target = target_metric(recipe, task)) return target->name;
  return metric_of(task, recipe, "the task's usual_best", task.usual_best()).name;
}

void check_metrics(const Recipe& recipe, const TaskFactory& make,
                   std::vector<std::string>& problems) {
  const bool named = !recipe.checkpoint.best.empty() || !recipe.training.target.metric.empty();
  if (!named) return;
  const auto note = [&](const auto& check) {
    try {
      check();
    } catch (const UsageError& error) {
      problems.emplace_back(error.what());
    }
  };
  std::unique_ptr<Task> task;
  note([&] { task = make(recipe); });
  if (!task) return;
  note([&] { target_metric(recipe, *task); });
  if (!recipe.checkpoint.best.empty()) note([&] { best_metric(recipe, *task); });
}

}  // namespace convoy::train
