// What partitions have and do.
#include <algorithm>
#include <utility>

#include "convoy/model/partition.h"
#include "model/blueprint/sizes.h"
#include "model/execution/local_blocks.h"
#include "model/partition/loads.h"

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
  for (std::size_t p = 0; p < loads.size(); ++p) {
    PartitionLoad& load = loads[p];
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::int64_t held = place.tensors[p][t].elements();
      (tensors[t].buffer ? load.buffers : load.parameters) += held;
      if (!tensors[t].buffer && !place.divides(t) && plan.partitions > 1)
        load.summed_parameters += held;
    }
    load.macs += macs_of_part(blueprint, plan, place, p);
    shapes.output = output.tiles[p].size;
    load.activation_values += static_cast<double>(activation_bytes(stage, place.node, shapes, 1));
  }
}

// Whether a layer reads what some partition doesn't hold, so that all of them wait for it there.
bool waits_for(const PartitionPlan& plan, const PartitionedNode& place, std::size_t input) {
  const PartitionedValue& value = plan.values[place.inputs[input]];
  if (!value.exchanged || value.input) return value.exchanged;
  for (std::size_t p = 0; p < value.tiles.size(); ++p) {
    if (!lies_in(place.required[input][p], value.tiles[p])) return true;
  }
  return false;
}

// Values of messages, while a pass goes forward.
class Messages {
 public:
  Messages(const PartitionPlan& plan, const std::vector<PartitionTraffic>& traffic)
      : plan_(plan),
        partitions_(static_cast<std::size_t>(plan.partitions)),
        received_(plan.values.size(), std::vector<double>(partitions_)),
        copies_(partitions_) {
    for (const PartitionTraffic& sent : traffic) {
      if (sent.output) continue;  // rows of a tile, as they lie there
      received_[sent.value][static_cast<std::size_t>(sent.to)] += sent.values;
      add_copy(sent);
    }
  }

  // By partition, see PartitionLoad::message_values.
  std::vector<double> most() const {
    std::vector<double> all = copies_, now(partitions_), most(partitions_);
    std::vector<bool> open(plan_.values.size());
    const auto start = [&](std::size_t v) {
      open[v] = true;
      for (std::size_t p = 0; p < partitions_; ++p)
        most[p] = std::max(most[p], now[p] += received_[v][p]);
    };
    // From when a value is there until a layer waits for it, and puts it together.
    for (std::size_t v = 0; v < plan_.values.size() && plan_.values[v].input; ++v) start(v);
    for (const PartitionedNode& place : plan_.nodes) {
      for (std::size_t i = 0; i < place.inputs.size(); ++i) {
        const std::size_t v = place.inputs[i];
        if (!open[v] || !waits_for(plan_, place, i)) continue;
        open[v] = false;
        for (std::size_t p = 0; p < partitions_; ++p) now[p] -= received_[v][p];
      }
      start(place.output);
    }
    for (std::size_t p = 0; p < partitions_; ++p) all[p] += most[p];
    return all;
  }

 private:
  // Traffic goes by value, then by who sends.
  void add_copy(const PartitionTraffic& sent) {
    const PartitionedValue& value = plan_.values[sent.value];
    const auto from = static_cast<std::size_t>(sent.from);
    if (sent.value != value_ || sent.from != from_) pieces_.clear();
    value_ = sent.value;
    from_ = sent.from;
    Slice piece = value.piece(sent.from, sent.to);
    if (piece == value.tiles[from]) return;
    if (std::find(pieces_.begin(), pieces_.end(), piece) != pieces_.end()) return;
    copies_[from] += sent.values;
    pieces_.push_back(std::move(piece));
  }

  const PartitionPlan& plan_;
  std::size_t partitions_;
  std::vector<std::vector<double>> received_;  // by value and partition
  std::vector<double> copies_;                 // by partition
  std::vector<Slice> pieces_;                  // that one partition has copied of one value
  std::size_t value_ = 0;
  int from_ = -1;
};

}  // namespace

double macs_of_part(const Blueprint& blueprint, const PartitionPlan& plan,
                    const PartitionedNode& place, std::size_t partition) {
  const PartitionedValue& output = plan.values[place.output];
  const double elements = std::max(static_cast<double>(elements_of(output.shape)), 1.0);
  const auto all = macs(plan.node_of(blueprint, place), shapes_of(plan, place.inputs));
  return static_cast<double>(all) / elements *
         static_cast<double>(output.tiles[partition].elements());
}

std::vector<PartitionLoad> loads_of(const Blueprint& blueprint, const PartitionPlan& plan) {
  std::vector<PartitionLoad> loads(static_cast<std::size_t>(plan.partitions));
  for (const PartitionedNode& place : plan.nodes) add_layer(blueprint, plan, place, loads);
  std::vector<std::vector<bool>> fetches(plan.values.size(), std::vector<bool>(loads.size()));
  const std::vector<PartitionTraffic> traffic = traffic_of(plan);
  for (const PartitionTraffic& sent : traffic) {
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
  const std::vector<double> messages = Messages(plan, traffic).most();
  for (std::size_t p = 0; p < loads.size(); ++p) loads[p].message_values = messages[p];
  for (std::size_t v = 0; v < plan.values.size(); ++v) {
    for (std::size_t p = 0; p < loads.size(); ++p) {
      if (fetches[v][p])
        loads[p].activation_values += static_cast<double>(plan.values[v].needed[p].elements());
    }
  }
  return loads;
}

double local_copies(const Blueprint& blueprint, const PartitionPlan& plan, int partition,
                    std::int64_t samples, std::int64_t element) {
  double bytes = 0;
  for (const PartitionedNode& place : plan.nodes) {
    const auto* local = std::get_if<layer::LocallyConnected>(&plan.node_of(blueprint, place).kind);
    const Slice& tile = plan.values[place.output].tiles[static_cast<std::size_t>(partition)];
    if (local == nullptr || tile.elements() == 0 || samples == 0) continue;
    const std::int64_t column = samples * local->in * local->kernel[0] * element;
    const std::int64_t position = column * local->kernel[1];
    const LocalBlock block = local_block(tile.size[1], tile.size[2], position);
    // And of their gradients what rows of windows add up to.
    const std::int64_t width = (block.columns - 1) * local->stride[1] + local->kernel[1];
    bytes += static_cast<double>(block.rows * (block.columns * position + width * column));
  }
  return bytes;
}

}  // namespace convoy::model
