// Buffers that differ from rank to rank: running statistics, and whatever else a network keeps.
#pragma once

#include <functional>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/train/state.h"

namespace convoy::train {

// The buffers of a network, by device of this rank: the same ones on each.
using BuffersOfDevices = std::vector<std::vector<parallel::NamedTensor>>;

// Means over the ranks, in place; counters, and whatever holds whole numbers, become the largest.
// Statistics of batch normalization count by the batches that they are of: a rank that never had a
// sample has none. All ranks have the same buffers. Collective.
void unite_buffers(const comm::Communicator& communicator,
                   const std::vector<parallel::NamedTensor>& buffers);
// Means over all devices of all ranks, as many on each, into those of the first device: what as
// many ranks as there are devices would have. To the bit where the communicator is reproducible.
void unite_buffers_of_devices(const comm::Communicator& communicator,
                              const BuffersOfDevices& devices);

// These are the buffers of a network that all ranks have, each with values of its own, or each of
// their devices. One thread.
class LocalBuffers {
 public:
  LocalBuffers() = default;
  // References to the buffers, which stay their network's. Those that are the same on all ranks are
  // left alone: masks, tables of positions, statistics of batch normalization over all of them.
  LocalBuffers(comm::Communicator communicator, std::vector<parallel::NamedTensor> all);
  // Of several devices. The network that is evaluated and saved is the first one's.
  LocalBuffers(comm::Communicator communicator, BuffersOfDevices all);

  // Takes over the values that a checkpoint has for this rank, unless they are of another number of
  // devices.
  void load(const Tensors& saved);
  // Gives the values of this rank by name, also while the network holds others: those of the first
  // device under their names, of the others under "device/<number>/<name>". Collective unless it
  // does.
  Tensors own() const;
  // While `use` runs the network holds what unite_buffers() makes of them. Collective.
  void with_united(const std::function<void()>& use);

 private:
  BuffersOfDevices different() const;

  comm::Communicator communicator_;
  BuffersOfDevices all_;  // that may differ
  bool united_ = false;   // the network holds buffers of all ranks,
  Tensors own_;           // and this those of this one
};

}  // namespace convoy::train
