// What the ranks of a world reach each other through.
#pragma once

#include "convoy/comm/world.h"
#include "convoy/plan/placement.h"

namespace convoy::train {

// Measured among all of them at a time: sums and exchanges of some size, and of a few bytes; and
// what of a processor a byte takes. Collective. REQUIRES: several ranks.
plan::Network measure_links(const comm::World& world);

}  // namespace convoy::train
