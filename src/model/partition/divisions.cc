#include "model/partition/divisions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/base/parts.h"
#include "model/blueprint/sizes.h"

namespace convoy::model {
namespace {

constexpr std::array<Division, 5> kDivisions{Division::whole, Division::rows, Division::tiles,
                                             Division::units, Division::follows};

bool is_image(const Shape& shape) { return shape.size() == 3; }
bool is_position(const Shape& shape) { return is_image(shape) && shape[1] == 1 && shape[2] == 1; }

template <class... Kinds>
bool is_any(const Node& node) {
  return (std::holds_alternative<Kinds>(node.kind) || ...);
}

// Whether its output has the elements of its first input, in a shape that is divided alike.
bool can_follow(const ShapedLayer& layer) {
  const Shape& input = layer.inputs[0];
  if (is_any<layer::Flatten>(layer.node)) return input.size() == 1 || is_position(input);
  if (is_any<layer::AdaptiveAveragePool>(layer.node)) return input == layer.output;
  return is_any<layer::Relu, layer::Relu6, layer::Sigmoid, layer::Dropout, layer::BatchNorm,
                layer::Add>(layer.node);
}

bool computes_parts(const ShapedLayer& layer) {
  const auto* opaque = std::get_if<layer::Opaque>(&layer.node.kind);
  return opaque == nullptr || opaque->in_parts;
}

bool can_have_rows(const ShapedLayer& layer) {
  // The windows of an adaptive pool are of different sizes.
  const bool adapts = is_any<layer::AdaptiveAveragePool>(layer.node) && !can_follow(layer);
  return is_image(layer.output) && !is_any<layer::Linear>(layer.node) && !adapts &&
         computes_parts(layer);
}

bool can_have_units(const ShapedLayer& layer) {
  if (is_any<layer::Flatten>(layer.node)) return can_follow(layer);
  // Of a group's channels a part would need its part of the input alone.
  const auto* convolution = std::get_if<layer::Convolution>(&layer.node.kind);
  if (convolution != nullptr && convolution->groups > 1) return false;
  return !is_any<layer::LocalContrastNorm>(layer.node) && computes_parts(layer);
}

bool can_have(const ShapedLayer& layer, Division how) {
  switch (how) {
    case Division::whole:
      return true;
    case Division::rows:
    case Division::tiles:
      return can_have_rows(layer);
    case Division::units:
      return can_have_units(layer);
    case Division::follows:
      return can_follow(layer);
  }
  return false;
}

void check_possible(const ShapedLayer& layer, Division how) {
  if (can_have(layer, how)) return;
  std::string possible;
  for (const Division other : kDivisions) {
    if (can_have(layer, other))
      possible += (possible.empty() ? "" : ", ") + std::string(text_of(other));
  }
  complain(layer.node, std::string("can't be divided by '") + text_of(how) + "': a " +
                           kind_name(layer.node) + " layer with an output of " +
                           text_of(layer.output) + " can have: " + possible);
}

// Rows x columns.
std::array<int, 2> grid_of(const PartitionRules& rules) {
  const auto [rows, columns] = rules.tiles;
  if (rows == 0 && columns == 0) {
    int least = static_cast<int>(std::sqrt(static_cast<double>(rules.partitions)));
    while (rules.partitions % least != 0) --least;
    return {rules.partitions / least, least};
  }
  if (rows > 0 && columns > 0 &&
      static_cast<std::int64_t>(rows) * columns == static_cast<std::int64_t>(rules.partitions))
    return rules.tiles;
  throw UsageError("tiles of " + std::to_string(rows) + " rows x " + std::to_string(columns) +
                   " columns are not for " + std::to_string(rules.partitions) +
                   " partitions: there has to be one for each");
}

void check_names(const PartitionRules& rules, const Blueprint& blueprint) {
  std::vector<std::string> names;
  for (const StageSpec& stage : blueprint.stages) {
    for (const Node& node : stage.nodes) names.push_back(node.name);
  }
  for (const auto& [name, division] : rules.layers) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest_name(name, names);
    throw UsageError("the network '" + blueprint.name + "' has no layer '" + name + "' to divide" +
                     (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
}

void set_part(Slice& tile, std::size_t dimension, Units units) {
  tile.begin[dimension] = units.begin;
  tile.size[dimension] = units.size;
}

}  // namespace

const char* text_of(Division division) {
  switch (division) {
    case Division::whole:
      return "whole";
    case Division::rows:
      return "rows";
    case Division::tiles:
      return "tiles";
    case Division::units:
      return "units";
    case Division::follows:
      return "follows";
  }
  return "";
}

std::optional<Division> division_of(std::string_view text) {
  for (const Division division : kDivisions) {
    if (text == text_of(division)) return division;
  }
  return std::nullopt;
}

std::size_t divided_dimension(const Node& node, const Shape& output, Division how) {
  if (how == Division::rows) return 1;
  // A fully connected layer works over the last dimension of any shape.
  return is_image(output) && !is_any<layer::Linear>(node) ? 0 : output.size() - 1;
}

Divisions::Divisions(const PartitionRules& rules, const Blueprint& blueprint) : rules_(rules) {
  if (rules.partitions < 1) {
    throw UsageError("a network has one partition or more, not " +
                     std::to_string(rules.partitions));
  }
  grid_ = grid_of(rules);
  if (rules.images.how == Division::units || rules.images.how == Division::follows) {
    throw UsageError(std::string("images can be divided by rows or tiles, or be whole, not '") +
                     text_of(rules.images.how) + "'");
  }
  check_parts(rules.images, "images");
  check_parts({Division::units, rules.units}, "units");
  check_names(rules, blueprint);
  for (const auto& [name, division] : rules.layers) check_parts(division, "layer '" + name + "'");
}

void Divisions::check_parts(const LayerDivision& division, const std::string& whose) const {
  const std::vector<double>& parts = division.parts;
  if (parts.empty()) return;
  const auto refuse = [&whose](const std::string& what) { throw UsageError(whose + ": " + what); };
  if (division.how != Division::rows && division.how != Division::units)
    refuse(std::string("parts are for rows and units, not for '") + text_of(division.how) + "'");
  if (parts.size() != static_cast<std::size_t>(rules_.partitions)) {
    refuse("there are " + std::to_string(parts.size()) + " parts for " +
           std::to_string(rules_.partitions) + " partitions");
  }
  for (const double part : parts) {
    if (!std::isfinite(part) || part < 0) refuse("parts have to be finite, and can't be negative");
  }
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) refuse("one of the parts has to be above 0");
}

LayerDivision Divisions::of(const ShapedLayer& layer) const {
  const auto rule = rules_.layers.find(layer.node.name);
  LayerDivision division = rule != rules_.layers.end() ? rule->second : usual(layer);
  check_possible(layer, division.how);
  if (division.how != Division::follows || !layer.reads_input) return division;
  if (is_image(layer.output)) return regional(layer);
  return {Division::units, rules_.units};
}

LayerDivision Divisions::regional(const ShapedLayer& layer) const {
  if (is_position(layer.output)) return {Division::whole};
  return rules_.images;
}

LayerDivision Divisions::usual(const ShapedLayer& layer) const {
  const Node& node = layer.node;
  if (can_follow(layer)) return {Division::follows};
  if (is_any<layer::Linear, layer::AdaptiveAveragePool>(node))
    return {Division::units, rules_.units};
  if (can_have_rows(layer)) return regional(layer);
  if (is_any<layer::Opaque>(node) && can_have_units(layer)) return {Division::units, rules_.units};
  return {Division::whole};
}

std::vector<Slice> Divisions::tiles(const ShapedLayer& layer, const LayerDivision& division) const {
  const Shape& shape = layer.output;
  const int partitions = rules_.partitions;
  std::vector<Slice> tiles;
  for (int p = 0; p < partitions; ++p) {
    Slice tile = whole_of(layer.node.name, shape);
    const auto divide = [&](std::size_t d, int index, int parts) {
      set_part(tile, d, units_of(shape[d], division.parts, index, parts));
    };
    if (division.how == Division::units || division.how == Division::rows)
      divide(divided_dimension(layer.node, shape, division.how), p, partitions);
    if (division.how == Division::tiles) {
      divide(1, p / grid_[1], grid_[0]);
      divide(2, p % grid_[1], grid_[1]);
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

}  // namespace convoy::model
