#include "train/strategies/hybrid/split.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/parts.h"
#include "convoy/model/dropout.h"
#include "convoy/train/placement.h"
#include "model/execution/module_tree.h"
#include "train/strategies/part_values.h"

namespace convoy::train {
namespace {

using model::Node;
namespace layer = model::layer;

// A layer in the whole network.
struct Place {
  std::size_t stage = 0, node = 0;
  LayerPlacement placement;
  model::Shape input, output;
};

bool is_linear(const Node& node) { return std::holds_alternative<layer::Linear>(node.kind); }
// Computes each unit from that unit of its input.
bool works_on_units(const Node& node) {
  return std::holds_alternative<layer::Relu>(node.kind) ||
         std::holds_alternative<layer::Relu6>(node.kind) ||
         std::holds_alternative<layer::Sigmoid>(node.kind) ||
         std::holds_alternative<layer::Dropout>(node.kind) ||
         std::holds_alternative<layer::Flatten>(node.kind);
}

std::vector<Place> places_of(const model::Blueprint& blueprint,
                             const std::vector<model::Shape>& inputs,
                             const PlacementRecipe& placement) {
  std::vector<LayerPlacement> placed = place_layers(placement, blueprint, "");
  const auto shapes = shapes_of(blueprint, inputs);
  std::vector<Place> places;
  for (std::size_t s = 0; s < blueprint.stages.size(); ++s) {
    for (std::size_t n = 0; n < blueprint.stages[s].nodes.size(); ++n) {
      const model::LayerShapes& own = shapes[s].layers[n];
      places.push_back({s, n, placed[places.size()], own.inputs.front(), own.output});
    }
  }
  return places;
}

class Cut {
 public:
  Cut(const model::Blueprint& blueprint, const std::vector<model::Shape>& inputs,
      const PlacementRecipe& placement)
      : blueprint_(blueprint), places_(places_of(blueprint, inputs, placement)) {
    if (!blueprint.auxiliary.empty()) {
      throw UsageError("the network '" + blueprint.name +
                       "' has auxiliary classifiers, which hybrid doesn't train: take another "
                       "strategy, or train it without them (model.options.auxiliary = false)");
    }
    choose();
    check_chain();
  }

  const std::vector<Place>& places() const { return places_; }
  std::size_t first() const { return first_; }  // partitioned layer
  const Node& node(std::size_t i) const {
    return blueprint_.stages[places_[i].stage].nodes[places_[i].node];
  }
  bool partitioned(std::size_t i) const { return places_[i].placement.how == "partitioned"; }

  // What comes before the first partitioned layer.
  model::Blueprint trunk() const {
    const Place& cut = places_[first_];
    model::Blueprint trunk{blueprint_.name, blueprint_.inputs, {}};
    trunk.stages.assign(blueprint_.stages.begin(),
                        blueprint_.stages.begin() + static_cast<std::ptrdiff_t>(cut.stage) + 1);
    model::StageSpec& last = trunk.stages.back();
    last.nodes.resize(cut.node);
    last.outputs = {node(first_).inputs.front()};
    return trunk;
  }

 private:
  // Where layers are that no rule says, and that rules ask only for what there is.
  void choose() {
    std::size_t behind = 0;  // the last convolution or locally connected layer
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (std::holds_alternative<layer::Convolution>(node(i).kind) ||
          std::holds_alternative<layer::LocallyConnected>(node(i).kind))
        behind = i + 1;
    }
    first_ = places_.size();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      std::string& how = places_[i].placement.how;
      const bool has_units = is_linear(node(i));
      if (how == "partitioned" && !has_units && !tensors_of(node(i)).empty()) {
        throw UsageError("layer '" + node(i).name + "' (" + kind_name(node(i)) +
                         ") can't be partitioned: with hybrid fully connected layers can; the "
                         "others are replicated");
      }
      if (how.empty()) how = has_units && i >= behind ? "partitioned" : "replicated";
      if (!has_units) how = "replicated";
      if (how == "partitioned") first_ = std::min(first_, i);
    }
    if (first_ == places_.size()) {
      throw UsageError("no layer of " + blueprint_.name +
                       " is partitioned: with hybrid at least one fully connected layer has to be "
                       "(or set strategy = \"sync\")");
    }
  }

  void check_chain() const {
    for (std::size_t i = first_; i < places_.size(); ++i) {
      check_follows(i);
      check_kind(i);
    }
  }

  // That it reads what the one before it computes, and nobody else does.
  void check_follows(std::size_t i) const {
    const Place& place = places_[i];
    const model::StageSpec& stage = blueprint_.stages[place.stage];
    const bool last = place.node + 1 == stage.nodes.size();
    bool follows = node(i).inputs.size() == 1;
    if (i > first_) {
      follows = follows &&
                (place.node > 0 ? node(i).inputs[0] == node(i - 1).name : stage.inputs.size() == 1);
    }
    if (last) follows = follows && stage.outputs == std::vector<std::string>{node(i).name};
    if (follows) return;
    throw UsageError("layer '" + node(i).name + "': from '" + node(first_).name +
                     "' on, the first layer that is partitioned, each layer has to read the one "
                     "before it alone");
  }

  void check_kind(std::size_t i) const {
    const std::string behind = "; it stands behind '" + node(first_).name + "', which is";
    if (is_linear(node(i))) {
      if (!partitioned(i)) {
        throw UsageError("layer '" + node(i).name + "' is replicated" + behind +
                         " partitioned: no rank has all that it reads. Let it be partitioned as "
                         "well, or both replicated");
      }
      if (places_[i].input.size() == 1) return;
      throw UsageError("layer '" + node(i).name + "' takes " + model::text_of(places_[i].input) +
                       " of each sample; a layer that is partitioned takes one dimension: put a "
                       "flatten before it");
    }
    if (works_on_units(node(i))) return;
    throw UsageError(
        "layer '" + node(i).name + "' (" + kind_name(node(i)) + ")" + behind +
        " partitioned: there can be fully connected layers, relu, relu6, sigmoid, dropout and "
        "flatten. "
        "Let '" +
        node(first_).name + "' be replicated");
  }

  const model::Blueprint& blueprint_;
  std::vector<Place> places_;
  std::size_t first_ = 0;
};

// Before anything is built: the layer with the fewest units says how many partitions there can be.
void check_enough_units(const Cut& cut, int partitions) {
  const Node* fewest = nullptr;
  const auto units = [](const Node& node) { return std::get<layer::Linear>(node.kind).out; };
  for (std::size_t i = cut.first(); i < cut.places().size(); ++i) {
    if (!cut.partitioned(i) || !cut.places()[i].placement.parts.empty()) continue;
    if (fewest == nullptr || units(cut.node(i)) < units(*fewest)) fewest = &cut.node(i);
  }
  if (fewest == nullptr || units(*fewest) >= partitions) return;
  const std::string most = std::to_string(units(*fewest));
  throw UsageError(
      "layer '" + fewest->name + "' has " + most + (units(*fewest) == 1 ? " unit" : " units") +
      ", and some of " + std::to_string(partitions) +
      " partitions would get none: every partition needs at least one. Let "
      "grid.partitions be " +
      most + " at most (--set grid.partitions=" + most + ", and as many ranks for each replica)");
}

}  // namespace

PartitionedNames partitioned_layers(const model::Blueprint& blueprint,
                                    const std::vector<model::Shape>& inputs,
                                    const PlacementRecipe& placement) {
  const Cut cut(blueprint, inputs, placement);
  PartitionedNames names;
  for (std::size_t i = cut.first(); i < cut.places().size(); ++i) {
    const auto* const dropout = std::get_if<layer::Dropout>(&cut.node(i).kind);
    if (dropout != nullptr && dropout->probability > 0) names.drop_units = true;
    if (!cut.partitioned(i)) continue;
    names.layers.push_back(cut.node(i).name);
    names.parts.push_back(cut.places()[i].placement.parts);
  }
  names.inputs = std::get<layer::Linear>(cut.node(cut.first()).kind).in;
  return names;
}

SplitNetwork::SplitNetwork(const model::Blueprint& blueprint,
                           const std::vector<model::Shape>& inputs,
                           const PlacementRecipe& placement, std::uint64_t seed, int partition,
                           int partitions)
    : torch::nn::Module(blueprint.name),
      partition_(partition),
      whole_parameters_(cost_of(blueprint, inputs).parameters) {
  const Cut cut(blueprint, inputs, placement);
  check_enough_units(cut, partitions);
  model::Blueprint before = cut.trunk();
  std::vector<Node> nodes;
  for (const model::StageSpec& stage : before.stages)
    nodes.insert(nodes.end(), stage.nodes.begin(), stage.nodes.end());
  trunk_ = std::make_shared<model::StagedNetwork>(std::move(before), seed);
  adopt(*trunk_, nodes);
  for (std::size_t i = cut.first(); i < cut.places().size();) {
    std::size_t end = i + 1;
    std::vector<Node> behind;
    while (end < cut.places().size() && !cut.partitioned(end)) behind.push_back(cut.node(end++));
    add_layer(cut.node(i), cut.places()[i].placement.parts, seed, cut.places()[i].input,
              std::move(behind), partition, partitions);
    i = end;
  }
}

void SplitNetwork::add_layer(const Node& node, const std::vector<double>& parts, std::uint64_t seed,
                             const model::Shape& input, std::vector<Node> behind, int partition,
                             int partitions) {
  const auto& linear = std::get<layer::Linear>(node.kind);
  PartitionedLayer own{node.name, linear.in, {}, nullptr};
  for (int p = 0; p < partitions; ++p) {
    own.units.push_back(units_of(linear.out, parts, p, partitions).size);
    if (own.units.back() > 0) continue;
    throw UsageError("layer '" + node.name + "' has " + std::to_string(linear.out) +
                     (linear.out == 1 ? " unit" : " units") + ", and partition " +
                     std::to_string(p) + " of " + std::to_string(partitions) +
                     " would get none: every partition needs at least one");
  }
  const LayerPart part = split_by_output(node, std::span(&input, 1), parts, partition, partitions);
  Node mine = node;
  mine.module = nullptr;
  std::get<layer::Linear>(mine.kind).out = own.units[static_cast<std::size_t>(partition)];
  model::StageSpec stage{node.name, {"input"}, {mine}, {}};
  stage.nodes.front().inputs = {"input"};
  for (Node& next : behind) {
    next.inputs = {stage.nodes.back().name};
    stage.nodes.push_back(std::move(next));
  }
  stage.outputs = {stage.nodes.back().name};
  const std::vector<Node> nodes = stage.nodes;
  own.part = std::make_shared<model::Stage>(std::move(stage), seed);
  const auto held = own.part->named_parameters();
  const std::vector<model::TensorInfo> tensors = tensors_of(node);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    fill_part(node, tensors[i], part.tensors[i], seed, held[tensors[i].name]);
    parts_[tensors[i].name] = part.tensors[i];
  }
  for (const auto& item : own.part->named_modules("", false)) {
    auto* const dropout = item.value()->as<model::DropoutImpl>();
    if (dropout == nullptr) continue;
    dropout->set_part(part.output);
    drops_units_ = drops_units_ || dropout->probability() > 0;
  }
  adopt(*own.part, nodes);
  head_.push_back(std::move(own));
}

void SplitNetwork::adopt(const torch::nn::Module& part, const std::vector<Node>& nodes) {
  const auto modules = part.named_modules("", /*include_self=*/false);
  for (const Node& node : nodes) {
    const auto* module = modules.find(node.name);
    if (module != nullptr) model::register_under(*this, node.name, *module);
  }
}

void SplitNetwork::move_head(const torch::Device& device, at::ScalarType type) {
  for (const PartitionedLayer& layer : head_) layer.part->to(device, type);
}

void SplitNetwork::train(bool on) {
  torch::nn::Module::train(on);
  trunk_->train(on);
  for (const PartitionedLayer& layer : head_) layer.part->train(on);
}

}  // namespace convoy::train
