// What ranks that share a network send each other of one tensor. No Torch header.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/model/partition.h"

namespace convoy::train {

// This is a part of a tensor whose first dimension is the rows of a batch.
struct Box {
  std::vector<std::int64_t> begin, size;
  std::int64_t elements() const;
  bool empty() const { return elements() == 0; }
  bool operator==(const Box&) const = default;
};
// Gives what both have; empty where that is nothing.
Box overlap(const Box& a, const Box& b);
// Gives `inner` relative to where `outer` begins.
Box within(const Box& outer, Box inner);

// This says who sends what of a tensor of which this rank holds a part, and wants a part.
struct Route {
  std::vector<std::int64_t> held, wanted;  // shapes
  // These say by rank what it gets of the held part, and what of the wanted part comes from it.
  // Empty for this rank, and for those that there is nothing for.
  std::vector<Box> out, in;
  // Where what this rank has itself lies in either; empty: nowhere.
  Box kept_held, kept_wanted;

  std::int64_t sent() const;  // elements
  std::int64_t received() const;
};

// The rows of a batch that each rank of a group has, in the order of ranks.
struct Rows {
  std::vector<std::int64_t> of;
  std::int64_t all() const;
  std::int64_t before(int rank) const;
};

// Brings what rank `me` needs of each sample of an input of the network from where it was read.
Route route_of_input(const model::PartitionedValue& value, const Rows& rows, int me);
// Brings what rank `me` needs of what layers pass on.
Route route_between(const model::PartitionedValue& value, std::int64_t rows, int me);
// Brings all of an output of the network to the ranks whose samples they are.
Route route_home(const model::PartitionedValue& value, const Rows& rows, int me);
// Brings all of an output of the network to all ranks.
Route route_to_all(const model::PartitionedValue& value, std::int64_t rows, int me);

// Gives `part` of each of so many rows from `first` on, relative to `outer`.
Box box_of(std::int64_t first, std::int64_t rows, const Slice& part, const Slice& outer);

}  // namespace convoy::train
