// What a recipe comes to that leaves strategy or placement to the planner.
#pragma once

#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::train {

// The recipe with the strategy, the scheme and the grid that are planned for this world (or itself,
// where it is not automatic); rank 0's log says which, and why. A run that goes on from a
// checkpoint
// (`resume`, as TrainerOptions has it) keeps those that it had, if there are as many ranks.
// Measures for some seconds. Throws UsageError as what opens the data does, and where nothing can
// be planned. Collective.
Recipe placed(const comm::World& world, const Registry& registry, const Recipe& recipe,
              const std::string& resume);

}  // namespace convoy::train
