// Which of a task's metrics a recipe goes by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/train/registry.h"

namespace convoy::train {

// Gives the metric of training.target, if there is one. Throws UsageError for a metric that the
// task doesn't have, and for a level that a fraction can't have.
std::optional<Metric> target_metric(const Recipe& recipe, const Task& task);

// Gives the metric that the best checkpoint goes by: the recipe's, or else the task's. Throws the
// same.
std::string best_metric(const Recipe& recipe, const Task& task);

// Appends what these throw, of a recipe whose task says nothing else against it.
void check_metrics(const Recipe& recipe, const TaskFactory& make,
                   std::vector<std::string>& problems);

}  // namespace convoy::train
