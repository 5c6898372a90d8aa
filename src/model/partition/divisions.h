// Which division a layer has, by the rules and by its kind.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "convoy/model/partition.h"

namespace convoy::model {

// A layer with the shapes of what it reads and computes.
struct ShapedLayer {
  const Node& node;
  std::span<const Shape> inputs;
  const Shape& output;
  bool reads_input = false;  // its first input is one of the network
};

// The dimension of a layer's output that is divided. REQUIRES: rows, or units.
std::size_t divided_dimension(const Node& node, const Shape& output, Division how);

class Divisions {
 public:
  // Throws UsageError for rules that make no sense for this network.
  Divisions(const PartitionRules& rules, const Blueprint& blueprint);

  // Gives the division of a layer. That is not `follows` where it reads an input of the network,
  // which has no division. Throws UsageError as plan_partition does.
  LayerDivision of(const ShapedLayer& layer) const;
  // What each partition has of the output. REQUIRES: not `follows`.
  std::vector<Slice> tiles(const ShapedLayer& layer, const LayerDivision& division) const;

 private:
  LayerDivision usual(const ShapedLayer& layer) const;
  LayerDivision regional(const ShapedLayer& layer) const;
  void check_parts(const LayerDivision& division, const std::string& whose) const;

  const PartitionRules& rules_;
  std::array<int, 2> grid_{1, 1};
};

}  // namespace convoy::model
