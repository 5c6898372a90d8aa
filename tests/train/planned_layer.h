// Layers of which a rank computes a part, by themselves.
#pragma once

#include <cstddef>
#include <utility>

#include "convoy/model/partition.h"
#include "train/strategies/partitioned/part_layer.h"

namespace convoy::train {

// A network and how it is divided.
struct PlannedNetwork {
  PlannedNetwork(model::Blueprint network, const model::PartitionRules& rules)
      : net(std::move(network)), plan(plan_partition(net, net.inputs, rules)) {}

  // What a partition has of a layer with one input.
  PartLayer layer(std::size_t index, int partition) const {
    const model::PartitionedNode& place = plan.nodes[index];
    const Slice& tile = plan.values[place.output].tiles[static_cast<std::size_t>(partition)];
    return {
        plan.node_of(net, place), place, {plan.values[place.inputs[0]].shape}, tile, partition, 1};
  }

  model::Blueprint net;
  model::PartitionPlan plan;
};

}  // namespace convoy::train
