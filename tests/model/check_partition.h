// What holds of every plan of partitions, whatever the network and its division.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convoy/model/partition.h"

namespace convoy::model {

// Whether both hold something of the same.
inline bool meet(const Slice& a, const Slice& b) {
  return a.elements() > 0 && b.elements() > 0 && overlap(a, b).has_value();
}

inline bool holds(const Slice& box, const Slice& part) {
  if (part.elements() == 0) return true;
  const auto both = overlap(box, part);
  return both && both->elements() == part.elements();
}

inline void check_value(const PartitionedValue& value, int partitions) {
  const auto count = static_cast<std::size_t>(partitions);
  ASSERT_EQ(value.tiles.size(), count);
  ASSERT_EQ(value.needed.size(), count);
  const Slice whole = whole_of(value.name, value.shape);
  if (value.whole || value.input) {
    for (const Slice& tile : value.tiles) EXPECT_EQ(tile, whole);
  } else {
    EXPECT_EQ(problem_of_tiling(whole, value.tiles), std::nullopt) << value.name;
  }
  bool fetched = false;
  for (int to = 0; to < partitions; ++to) {
    const Slice& needed = value.needed[static_cast<std::size_t>(to)];
    const Slice& own = value.tiles[static_cast<std::size_t>(to)];
    std::int64_t found = 0;
    for (int from = 0; from < partitions; ++from) {
      const Slice piece = value.piece(from, to);
      EXPECT_EQ(piece.shape, value.shape);
      if (!value.input && from != to) EXPECT_FALSE(meet(piece, own)) << value.name;
      if (from != to) fetched = fetched || piece.elements() > 0;
      if (value.input) {
        EXPECT_EQ(piece, needed);
      }
      EXPECT_TRUE(holds(needed, piece)) << value.name;
      if (!value.whole || from == to) found += piece.elements();
    }
    // Pieces of tiles don't overlap: together they are all of it.
    if (!value.input) EXPECT_EQ(found, needed.elements()) << value.name;
  }
  EXPECT_EQ(value.exchanged, fetched) << value.name;
}

// The smallest box is what layers read, at each of its borders.
inline void check_needed(const PartitionPlan& plan) {
  for (std::size_t v = 0; v < plan.values.size(); ++v) {
    for (std::size_t p = 0; p < plan.values[v].needed.size(); ++p) {
      const Slice& needed = plan.values[v].needed[p];
      std::vector<std::int64_t> least = needed.shape, most(needed.shape.size(), 0);
      for (const PartitionedNode& node : plan.nodes) {
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
          const Slice& read = node.required[i][p];
          if (node.inputs[i] != v || read.elements() == 0) continue;
          EXPECT_TRUE(holds(needed, read)) << needed.text() << ", " << read.text();
          for (std::size_t d = 0; d < least.size(); ++d) {
            least[d] = std::min(least[d], read.begin[d]);
            most[d] = std::max(most[d], read.begin[d] + read.size[d]);
          }
        }
      }
      for (std::size_t d = 0; d < least.size() && needed.elements() > 0; ++d) {
        EXPECT_EQ(needed.begin[d], least[d]);
        EXPECT_EQ(needed.begin[d] + needed.size[d], most[d]);
      }
    }
  }
}

inline void check_node(const Blueprint& net, const PartitionPlan& plan,
                       const PartitionedNode& place) {
  const Node& node = plan.node_of(net, place);
  const std::vector<TensorInfo> tensors = tensors_of(node);
  ASSERT_NE(place.how, Division::follows);
  EXPECT_EQ(place.how == Division::whole, plan.values[place.output].whole);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Slice whole = whole_of(tensors[t].name, tensors[t].shape);
    std::vector<Slice> held;
    for (const auto& own : place.tensors) held.push_back(own[t]);
    if (place.divides(t)) {
      EXPECT_TRUE(place.divides_parameters);
      EXPECT_EQ(problem_of_tiling(whole, held), std::nullopt) << whole.text();
    } else {
      for (const Slice& own : held) EXPECT_EQ(own, whole);
    }
  }
}

inline void check_loads(const Blueprint& net, const PartitionPlan& plan) {
  double macs_of_all = 0, parameters = 0;
  for (const PartitionedNode& place : plan.nodes) {
    const Node& node = plan.node_of(net, place);
    std::vector<Shape> inputs;
    for (const std::size_t input : place.inputs) inputs.push_back(plan.values[input].shape);
    const int times = place.how == Division::whole ? plan.partitions : 1;
    macs_of_all += static_cast<double>(macs(node, inputs)) * times;
    const std::vector<TensorInfo> tensors = tensors_of(node);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!tensors[t].buffer)
        parameters += static_cast<double>(elements_of(tensors[t].shape)) *
                      (place.divides(t) ? 1 : plan.partitions);
    }
  }
  double sent = 0, received = 0, returned = 0, collected = 0;
  for (const PartitionLoad& load : loads_of(net, plan)) {
    macs_of_all -= load.macs;
    parameters -= static_cast<double>(load.parameters);
    sent += load.sent_values;
    received += load.received_values;
    returned += load.returned_values;
    collected += load.collected_values;
  }
  EXPECT_NEAR(macs_of_all, 0, 1e-3);
  EXPECT_EQ(parameters, 0);
  double pieces = 0, of_trained = 0;
  for (const PartitionTraffic& one : traffic_of(plan)) {
    const PartitionedValue& value = plan.values[one.value];
    if (!one.output) {
      const auto elements = static_cast<double>(value.piece(one.from, one.to).elements());
      EXPECT_DOUBLE_EQ(one.values, value.input ? elements / plan.partitions : elements);
    }
    pieces += one.values;
    if (value.trained) of_trained += one.values;
  }
  EXPECT_NEAR(sent, pieces, 1e-6 * pieces);
  EXPECT_NEAR(received, pieces, 1e-6 * pieces);
  EXPECT_NEAR(returned, of_trained, 1e-6 * pieces);
  EXPECT_NEAR(collected, of_trained, 1e-6 * pieces);
}

inline void check_plan(const Blueprint& net, const PartitionPlan& plan) {
  for (const PartitionedValue& value : plan.values) check_value(value, plan.partitions);
  for (const PartitionedNode& place : plan.nodes) check_node(net, plan, place);
  check_needed(plan);
  check_loads(net, plan);
}

}  // namespace convoy::model
