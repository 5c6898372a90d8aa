// What partitioned.check does.
#pragma once

#include <torch/torch.h>

#include "convoy/comm/world.h"
#include "convoy/model/partition.h"

namespace convoy::train {

// Checks the layers of the user's that the plan divides (model::check_parts). Throws UsageError, on
// every rank, where one states too small a region of its input; the first rank's log says which
// state too large a one, with what that sends for nothing in values of this type.
void check_user_layers(const comm::World& world, const model::Blueprint& blueprint,
                       const model::PartitionPlan& plan, at::ScalarType wire);

}  // namespace convoy::train
