// Who does what in a run: asked of the strategy, and checked.
#pragma once

#include "convoy/comm/world.h"
#include "convoy/train/strategy.h"

namespace convoy::train {

// What the strategy arranges for this recipe. Throws UsageError on every rank, naming the first
// that is wrong, when it makes no sense over all of them: samples would be lost, counted twice, or
// waited for. Collective.
Arrangement arrange(const comm::World& world, const Recipe& recipe, Strategy& strategy);

}  // namespace convoy::train
