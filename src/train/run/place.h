// What a recipe comes to that leaves strategy or placement to the planner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/data/dataset.h"
#include "convoy/plan/placement.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "convoy/train/task.h"

namespace convoy::train {

// The recipe with the strategy, the scheme and the grid that are planned for this world (or itself,
// where it is not automatic); rank 0's log says which, and why. A run that goes on from a
// checkpoint (`resume`, as TrainerOptions has it) keeps those that it had, if there are as many
// ranks and it can have them. Measures some steps where there is a choice. Throws UsageError as
// what opens the data does, and where nothing can be planned. Collective.
Recipe placed(const comm::World& world, const Registry& registry, const Recipe& recipe,
              const std::string& resume);

// The recipe as it is trained with a placement that it can have: data parallelism, or hybrid.
Recipe with_placement(const Recipe& recipe, const plan::Placement& placement);

// What a rank has of a batch of this data, which is none larger than the data: at least 1.
std::int64_t samples_per_rank(const Recipe& recipe, const Task& task, const data::Dataset& data,
                              int ranks);

// The place of the soonest forecast of a rank that takes at most so much memory (0: any), and where
// there is none, of the one that takes least: a forecast is no reason to refuse a training.
std::size_t best_within(const std::vector<plan::StepForecast>& forecasts, double memory_bytes);

}  // namespace convoy::train
