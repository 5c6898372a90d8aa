// What partitions have and do.
#include <algorithm>

#include "convoy/model/partition.h"

namespace convoy::model {
namespace {

std::vector<Shape> shapes_of(const PartitionPlan& plan, const std::vector<std::size_t>& values) {
  std::vector<Shape> shapes;
  for (const std::size_t value : values) shapes.push_back(plan.values[value].shape);
  return shapes;
}

void add_layer(const Blueprint& blueprint, const PartitionPlan& plan, const PartitionedNode& place,
               std::vector<PartitionLoad>& loads) {
  const StageSpec& stage = blueprint.stages[place.stage];
  const Node& node = plan.node_of(blueprint, place);
  const PartitionedValue& output = plan.values[place.output];
  const std::vector<TensorInfo> tensors = tensors_of(node);
  LayerShapes shapes{shapes_of(plan, place.inputs), output.shape};
  const double elements = std::max(static_cast<double>(elements_of(output.shape)), 1.0);
  const double macs_of_value = static_cast<double>(macs(node, shapes.inputs)) / elements;
  for (std::size_t p = 0; p < loads.size(); ++p) {
    PartitionLoad& load = loads[p];
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::int64_t held = place.tensors[p][t].elements();
      (tensors[t].buffer ? load.buffers : load.parameters) += held;
      if (!tensors[t].buffer && !place.divides(t) && plan.partitions > 1)
        load.summed_parameters += held;
    }
    load.macs += macs_of_value * static_cast<double>(output.tiles[p].elements());
    shapes.output = output.tiles[p].size;
    load.activation_values += static_cast<double>(activation_bytes(stage, place.node, shapes, 1));
  }
}

}  // namespace

std::vector<PartitionLoad> loads_of(const Blueprint& blueprint, const PartitionPlan& plan) {
  std::vector<PartitionLoad> loads(static_cast<std::size_t>(plan.partitions));
  for (const PartitionedNode& place : plan.nodes) add_layer(blueprint, plan, place, loads);
  std::vector<std::vector<bool>> fetches(plan.values.size(), std::vector<bool>(loads.size()));
  for (const PartitionTraffic& sent : traffic_of(plan)) {
    PartitionLoad& from = loads[static_cast<std::size_t>(sent.from)];
    PartitionLoad& to = loads[static_cast<std::size_t>(sent.to)];
    from.sent_values += sent.values;
    to.received_values += sent.values;
    if (plan.values[sent.value].trained) {
      to.returned_values += sent.values;
      from.collected_values += sent.values;
    }
    if (!sent.output) fetches[sent.value][static_cast<std::size_t>(sent.to)] = true;
  }
  for (std::size_t v = 0; v < plan.values.size(); ++v) {
    for (std::size_t p = 0; p < loads.size(); ++p) {
      if (fetches[v][p])
        loads[p].activation_values += static_cast<double>(plan.values[v].needed[p].elements());
    }
  }
  return loads;
}

}  // namespace convoy::model
