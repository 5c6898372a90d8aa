// How long ranks take for what they have of a network.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/train/compute.h"
#include "train/strategies/partitioned/network.h"

namespace convoy::train {

// What is measured.
struct TimedNetwork {
  PartitionedNetwork& network;  // is placed, and is left in training mode
  int partition = 0;            // this rank's
  const Compute& compute;
  std::vector<torch::Tensor> blanks;  // the network's inputs, without rows
  std::int64_t rows = 1;              // of a mini-batch
};

// Seconds of forward and backward by node of the plan and partition, of which this rank's replica
// may be one of several: that of the slowest. Each rank computes its parts one after the other on
// made-up values, which nobody has to send, all ranks at the same time, after warming up: medians,
// over stretches that are long enough to tell what share of a processor the rank has. Running
// statistics change. The same on all ranks. Collective.
//
// Throws UsageError naming a layer that can't take such values.
std::vector<std::vector<double>> time_parts(const comm::World& world, const TimedNetwork& timed);

}  // namespace convoy::train
