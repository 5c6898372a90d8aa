// In which types a divided network's values are.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "convoy/comm/communicator.h"
#include "train/strategies/partitioned/network.h"

namespace convoy::train {

// By value of the plan, if the network's inputs have these types: the same on every rank of
// `partitions`, also where a rank has nothing of a value. Autocast leaves some layers in float32,
// and only a module of the user's knows its own output. So each layer computes its part of one
// sample of zeros, as it does in evaluation. Collective.
std::vector<at::ScalarType> value_types(PartitionedNetwork& network,
                                        const comm::Communicator& partitions,
                                        const std::vector<at::ScalarType>& inputs,
                                        const at::Device& device);

}  // namespace convoy::train
