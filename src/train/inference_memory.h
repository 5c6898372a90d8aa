// Whether a network that each rank uses whole fits into its memory, before any of it is built.
#pragma once

#include "convoy/comm/world.h"
#include "convoy/train/registry.h"
#include "train/setup.h"

namespace convoy::train {

// Throws UsageError on every rank where one of them can't have the whole network, with the numbers,
// and how many partitions would do. `network` is that of the recipe that it is used with; `trained`
// is the recipe that the user names, which the advice is for. Does nothing where ranks divide the
// network, and where nobody knows how large it is without building it. Collective.
void check_whole_fits(const comm::World& world, const Registry& registry,
                      const RecipeNetwork& network, const Recipe& trained);

}  // namespace convoy::train
