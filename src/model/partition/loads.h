// What the part costs that a partition has of a layer.
#pragma once

#include <cstddef>

#include "convoy/model/partition.h"

namespace convoy::model {

// Multiply-adds for one sample. All values of an output cost the same.
double macs_of_part(const Blueprint& blueprint, const PartitionPlan& plan,
                    const PartitionedNode& place, std::size_t partition);

}  // namespace convoy::model
