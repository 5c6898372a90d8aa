// Buffers that differ from rank to rank: running statistics, and whatever else a network keeps.
#pragma once

#include <functional>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/train/state.h"

namespace convoy::train {

// Means over the ranks, in place; counters, and whatever holds whole numbers, become the largest.
// Statistics of batch normalization count by the batches that they are of: a rank that never had a
// sample has none. All ranks have the same buffers. Collective.
void unite_buffers(const comm::Communicator& communicator,
                   const std::vector<parallel::NamedTensor>& buffers);

// These are the buffers of a network that all ranks have, each with values of its own. One thread.
class LocalBuffers {
 public:
  LocalBuffers() = default;
  // References to the buffers, which stay their network's. Those that are the same on all ranks are
  // left alone: masks, tables of positions, statistics of batch normalization over all of them.
  LocalBuffers(comm::Communicator communicator, std::vector<parallel::NamedTensor> all);

  // Takes over the values that a checkpoint has for this rank.
  void load(const Tensors& saved);
  // Gives the values of this rank by name, also while the network holds others. Collective unless
  // it does.
  Tensors own() const;
  // While `use` runs the network holds what unite_buffers() makes of them. Collective.
  void with_united(const std::function<void()>& use);

 private:
  std::vector<parallel::NamedTensor> different() const;

  comm::Communicator communicator_;
  std::vector<parallel::NamedTensor> all_;  // that may differ
  bool united_ = false;                     // the network holds buffers of all ranks,
  Tensors own_;                             // and this those of this one
};

}  // namespace convoy::train
