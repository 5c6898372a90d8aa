// This says where the layers of a recipe's network should be: what convoy/plan/placement.h asks
// for, from the network itself and measured.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/model/blueprint.h"
#include "convoy/plan/placement.h"
#include "convoy/train/recipe.h"
#include "convoy/train/update_rule.h"

namespace convoy::train {

class Task;

// Gives the placement of a recipe that was checked. Keys that come to the same may be one
// placement: bc with one sender is b, and in groups of one rank b is c. REQUIRES: its strategy is
// sync or hybrid.
plan::Placement placement_of(const Recipe& recipe);

// This is a training that is to be placed.
struct PlacementProblem {
  Recipe recipe;  // its precision, layout, optimizer, rules of placement, buckets and seed
  model::Blueprint network;
  std::vector<model::Shape> inputs;  // of a sample
  int ranks = 1;
  std::int64_t samples_per_rank = 1;
  OptimizerFactory optimizer = {};             // a plugin's
  std::shared_ptr<const Task> task = nullptr;  // whose loss is measured; none: it takes no time
};

// Gives what there is to know without measuring: sizes. Fully connected layers that hybrid divides
// have what follows each of them within theirs, and its name. A network that hybrid can't divide
// has no head.
plan::TrainingCost training_cost(const PlacementProblem& problem);

// Says how long layers take for the samples that a rank has in any of the placements, and for
// another number of them, medians of so many passes; and how fast ranks reach each other, where
// there are several. All ranks measure at the same time, and the means are given: those of a whole
// processor, and what part of one a rank has. Threads are as set_threads has left them. Collective.
plan::MeasuredPlacement measure_placement(const comm::World& world, const PlacementProblem& problem,
                                          int repetitions = 2);

// These are all placements of the problem, and the place of the best one in the list.
// `memory_bytes`: most of a rank; 0: any.
struct PlacementPlan {
  std::vector<plan::StepForecast> forecasts;
  std::size_t best = 0;
};
PlacementPlan plan_placement(const PlacementProblem& problem,
                             const plan::MeasuredPlacement& measured, bool variable_batch = false,
                             double memory_bytes = 0);

}  // namespace convoy::train
