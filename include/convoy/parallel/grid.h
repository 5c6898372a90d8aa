// Ranks as a grid of replicas and partitions.
#pragma once

#include <cstdint>
#include <string>

#include "convoy/comm/communicator.h"

namespace convoy::parallel {

// These are the extents of a grid of ranks.
struct GridShape {
  int replicas = 1;    // copies of the model, each of which trains on samples of its own
  int partitions = 1;  // ranks that hold one copy together

  // For so many ranks. 0 replicas: as many as there are ranks for. Throws UsageError when the grid
  // doesn't have `ranks` places; the message says which grids would: of those with one
  // partition, where a copy can't be divided (`divides` is false).
  static GridShape of(std::int64_t replicas, std::int64_t partitions, int ranks,
                      bool divides = true);
  int size() const { return replicas * partitions; }
  bool operator==(const GridShape&) const = default;
};

// Says where this rank is in a grid, and whom it talks to. The partitions of a replica are
// consecutive ranks, so that they are on one host where hosts have room for that.
//
// Threads, lifetime and errors are those of the communicators.
class Grid {
 public:
  // Collective. REQUIRES: the shape has all.size() places.
  Grid(const comm::Communicator& all, GridShape shape);

  const GridShape& shape() const { return shape_; }
  int replica() const { return all_.rank() / shape_.partitions; }
  int partition() const { return all_.rank() % shape_.partitions; }

  const comm::Communicator& all() const { return all_; }
  // Gives the ranks of this replica, by partition.
  const comm::Communicator& partitions() const { return partitions_; }
  // Gives the ranks that hold the same partition, by replica.
  const comm::Communicator& replicas() const { return replicas_; }

 private:
  GridShape shape_;
  comm::Communicator all_;
  comm::Communicator partitions_;
  comm::Communicator replicas_;
};

}  // namespace convoy::parallel
