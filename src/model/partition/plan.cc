// Which partition computes, holds and needs what.
#include <algorithm>
#include <map>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/model/partition.h"
#include "model/blueprint/sizes.h"
#include "model/partition/divisions.h"

namespace convoy::model {
namespace {

Slice empty_slice(const PartitionedValue& value) {
  Slice none = whole_of(value.name, value.shape);
  std::fill(none.size.begin(), none.size.end(), 0);
  return none;
}

bool has_parameters(const Node& node) {
  const std::vector<TensorInfo> tensors = tensors_of(node);
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorInfo& tensor) { return !tensor.buffer; });
}

bool divides_parameters(const Node& node, Division how) {
  if (std::holds_alternative<layer::LocallyConnected>(node.kind)) return how != Division::whole;
  if (const auto* opaque = std::get_if<layer::Opaque>(&node.kind))
    return how != Division::whole && opaque->required_tensor && !opaque->tensors.empty();
  return how == Division::units && !tensors_of(node).empty();
}

// A fully connected layer over the last dimension divides images by their columns.
bool divides_positions(const std::vector<Slice>& tiles) {
  return std::any_of(tiles.begin(), tiles.end(), [](const Slice& tile) {
    return tile.elements() > 0 &&
           !std::equal(tile.size.begin() + 1, tile.size.end(), tile.shape.begin() + 1);
  });
}

std::vector<Slice> whole_tensors(const Node& node) {
  std::vector<Slice> wholes;
  for (const TensorInfo& tensor : tensors_of(node))
    wholes.push_back(whole_of(tensor.name, tensor.shape));
  return wholes;
}

class Planner {
 public:
  Planner(const Blueprint& blueprint, const std::vector<Shape>& inputs, const PartitionRules& rules)
      : blueprint_(blueprint), divisions_(rules, blueprint) {
    plan_.partitions = rules.partitions;
    add_inputs(inputs);
  }

  PartitionPlan plan() {
    const auto shapes = shapes_of(blueprint_, shapes_of_inputs());
    std::vector<std::size_t> passed;
    for (std::size_t v = 0; v < plan_.values.size(); ++v) passed.push_back(v);
    for (std::size_t s = 0; s < blueprint_.stages.size(); ++s) {
      const StageSpec& stage = blueprint_.stages[s];
      std::map<std::string, std::size_t> names;  // to values
      for (std::size_t i = 0; i < passed.size(); ++i) names[stage.inputs[i]] = passed[i];
      for (std::size_t n = 0; n < stage.nodes.size(); ++n) {
        PartitionedNode node{.stage = s, .node = n};
        for (const std::string& input : stage.nodes[n].inputs)
          node.inputs.push_back(names.at(input));
        names[stage.nodes[n].name] = plan_.values.size();
        add_node(std::move(node), stage.nodes[n], shapes[s].layers[n]);
      }
      passed.clear();
      for (const std::string& output : stage.outputs) passed.push_back(names.at(output));
    }
    plan_.outputs = passed;
    note_exchanged();
    return std::move(plan_);
  }

 private:
  std::vector<Shape> shapes_of_inputs() const {
    std::vector<Shape> shapes;
    for (const PartitionedValue& value : plan_.values) shapes.push_back(value.shape);
    return shapes;
  }

  std::size_t partitions() const { return static_cast<std::size_t>(plan_.partitions); }

  void add_inputs(const std::vector<Shape>& inputs) {
    const StageSpec& first = blueprint_.stages.front();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = i < first.inputs.size() ? first.inputs[i] : std::string();
      add_value({.name = name,
                 .shape = inputs[i],
                 .tiles = std::vector<Slice>(partitions(), whole_of(name, inputs[i])),
                 .input = true},
                Division::whole);
    }
  }

  void add_value(PartitionedValue value, Division how) {
    if (value.shape.empty()) {
      throw UsageError("'" + value.name +
                       "' has no dimension along which it could be divided: give it one");
    }
    value.needed.assign(partitions(), empty_slice(value));
    plan_.values.push_back(std::move(value));
    how_.push_back(how);
  }

  void add_node(PartitionedNode place, const Node& node, const LayerShapes& shapes) {
    const PartitionedValue& first = plan_.values[place.inputs.front()];
    const ShapedLayer layer{node, shapes.inputs, shapes.output, first.input};
    const LayerDivision division = divisions_.of(layer);
    PartitionedValue output{.name = node.name, .shape = shapes.output};
    if (division.how == Division::follows) {
      place.how = following(layer, how_[place.inputs.front()]);
      output.tiles = following(layer, first.tiles);
      place.follows = true;
    } else {
      place.how = division.how;
      place.divided_evenly =
          division.parts.empty() && (place.how == Division::rows || place.how == Division::units);
      output.tiles = divisions_.tiles(layer, division);
    }
    output.whole = place.how == Division::whole;
    output.trained = has_parameters(node) ||
                     std::any_of(place.inputs.begin(), place.inputs.end(),
                                 [this](std::size_t input) { return plan_.values[input].trained; });
    place.output = plan_.values.size();
    const bool normalizes = std::holds_alternative<layer::BatchNorm>(node.kind);
    const bool by_position = place.how == Division::rows || place.how == Division::tiles;
    place.shares_statistics = normalizes && (by_position || divides_positions(output.tiles));
    place.divides_parameters = divides_parameters(node, place.how) && !place.shares_statistics;
    note_requirements(place, layer, output.tiles);
    add_value(std::move(output), place.how);
    plan_.nodes.push_back(std::move(place));
  }

  // What is flattened has one dimension left, which has all that its tile has.
  static Division following(const ShapedLayer& layer, Division how) {
    const bool flat = std::holds_alternative<layer::Flatten>(layer.node.kind);
    return flat && how != Division::whole ? Division::units : how;
  }
  static std::vector<Slice> following(const ShapedLayer& layer, std::vector<Slice> tiles) {
    for (Slice& tile : tiles) {
      if (tile.shape != layer.output)
        tile = {{}, layer.output, {tile.begin.front()}, {tile.elements()}};
      tile.tensor = layer.node.name;
    }
    return tiles;
  }

  void note_requirements(PartitionedNode& place, const ShapedLayer& layer,
                         const std::vector<Slice>& tiles) {
    place.required.assign(place.inputs.size(), {});
    for (std::size_t p = 0; p < partitions(); ++p) {
      std::vector<Slice> parts = required_input(layer.node, layer.inputs, tiles[p]);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        PartitionedValue& value = plan_.values[place.inputs[i]];
        parts[i].tensor = value.name;
        extend(value.needed[p], parts[i]);
        place.required[i].push_back(std::move(parts[i]));
      }
      place.tensors.push_back(place.divides_parameters
                                  ? required_parameters(layer.node, layer.inputs, tiles[p])
                                  : whole_tensors(layer.node));
    }
    if (place.divides_parameters && std::holds_alternative<layer::Opaque>(layer.node.kind))
      check_tensors(place, layer.node, tiles);
  }

  // Of a module of the user's: what several need whole everybody has, and of the rest each its own.
  static void check_tensors(PartitionedNode& place, const Node& node,
                            const std::vector<Slice>& tiles) {
    const std::vector<Slice> wholes = whole_tensors(node);
    for (std::size_t t = 0; t < wholes.size(); ++t) {
      std::size_t computing = 0, whole = 0;
      std::vector<Slice> held;
      for (std::size_t p = 0; p < tiles.size(); ++p) {
        held.push_back(place.tensors[p][t]);
        if (tiles[p].elements() == 0) continue;
        ++computing;
        whole += held.back().whole() ? 1U : 0U;
      }
      if (whole == computing && whole > 1) {
        for (auto& own : place.tensors) own[t] = wholes[t];
      }
      if (!place.divides(t)) continue;
      if (const auto problem = problem_of_tiling(wholes[t], held)) {
        complain(node, std::string("divided by '") + text_of(place.how) +
                           "', what it states to require of " + wholes[t].text() +
                           " doesn't go: " + *problem +
                           "; each has to have its own, or all the whole, or the layer another "
                           "division");
      }
    }
  }

  void note_exchanged() {
    for (PartitionedValue& value : plan_.values) {
      if (value.whole || plan_.partitions == 1) continue;
      for (std::size_t p = 0; p < partitions(); ++p) {
        value.exchanged =
            value.exchanged || (value.input ? value.needed[p].elements() > 0
                                            : !lies_in(value.needed[p], value.tiles[p]));
      }
    }
  }

  const Blueprint& blueprint_;
  const Divisions divisions_;
  PartitionPlan plan_;
  std::vector<Division> how_;  // of the values
};

}  // namespace

Slice PartitionedValue::piece(int from, int to) const {
  const Slice& wanted = needed[static_cast<std::size_t>(to)];
  if (input || (whole && from == to)) return wanted;
  if (!whole) {
    if (auto both = overlap(tiles[static_cast<std::size_t>(from)], wanted)) return *std::move(both);
  }
  return empty_slice(*this);
}

bool PartitionedNode::divides(std::size_t tensor) const {
  return divides_parameters &&
         !std::all_of(tensors.begin(), tensors.end(),
                      [tensor](const std::vector<Slice>& own) { return own[tensor].whole(); });
}

PartitionPlan plan_partition(const Blueprint& blueprint, const std::vector<Shape>& inputs,
                             const PartitionRules& rules) {
  check(blueprint);
  return Planner(blueprint, inputs, rules).plan();
}

}  // namespace convoy::model
