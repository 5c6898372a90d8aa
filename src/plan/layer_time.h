// How long a layer takes, by what was measured.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/plan/placement.h"

namespace convoy::plan {

struct PassSeconds {
  double forward = 0, backward = 0;
};

// Gives the seconds of so many samples with so many of the layer's units; 0 units: all. They follow
// from the times with the nearest number of units, in proportion to units. Between two numbers of
// samples they are linear, and beyond them on the same line, where that is neither less than in
// proportion nor falls; with one number of samples they are in proportion. A layer without times
// takes none.
PassSeconds pass_seconds(const LayerCost& layer, double samples, std::int64_t units);
// Gives the seconds of what has no units.
PassSeconds pass_seconds(const std::vector<PassTime>& times, double samples);

}  // namespace convoy::plan
