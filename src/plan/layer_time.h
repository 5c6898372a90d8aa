// How long a layer takes, by what was measured.
#pragma once

#include <cstdint>

#include "convoy/plan/placement.h"

namespace convoy::plan {

struct PassSeconds {
  double forward = 0, backward = 0;
};

// Of so many samples with so many of the layer's units; 0 units: all. From the times with the
// nearest number of units, in proportion to units; between two numbers of samples linear, beyond
// those measured in proportion. A layer without times takes none.
PassSeconds pass_seconds(const LayerCost& layer, double samples, std::int64_t units);

}  // namespace convoy::plan
