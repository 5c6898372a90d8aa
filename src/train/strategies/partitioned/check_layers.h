// What is looked for in layers before training.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "convoy/comm/world.h"
#include "convoy/model/partition.h"

namespace convoy::train {

// What partitioned.check does: checks the layers of the user's that the plan divides
// (model::check_parts). Throws UsageError, on every rank, where one states too small a region of
// its input; the first rank's log says which state too large a one, with what that sends for
// nothing in values of this type, and which can't be checked.
void check_user_layers(const comm::World& world, const model::Blueprint& blueprint,
                       const model::PartitionPlan& plan, at::ScalarType wire);

// Throws UsageError where a module of the user's of which partitions compute parts normalizes over
// the batch, or drops units by their place in a sample (model::Dropout): its statistics and places
// would be those of a part, and of each piece of that.
void check_own_statistics(const model::Blueprint& blueprint, const model::PartitionPlan& plan);

// How many rows of a batch there have to be for training: 2 where a layer normalizes one position
// of each over the batch, or a module of the user's that is computed whole refuses a single one.
// Which is tried, with rows of this type. Layers that normalize over several replicas compare a row
// with those of others: `together`. REQUIRES: modules of the user's on the CPU.
std::int64_t least_rows(const model::Blueprint& blueprint, const model::PartitionPlan& plan,
                        at::ScalarType type, bool together);

}  // namespace convoy::train
