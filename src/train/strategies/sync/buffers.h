// Running statistics that differ from rank to rank.
#pragma once

#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/distributed_model.h"

namespace convoy::train {

// Means over the ranks, in place; counters become the largest. Statistics of batch normalization
// count by the batches that they are of: a rank that never had a sample has none. All ranks have
// the same buffers. Collective.
void unite_buffers(const comm::Communicator& communicator,
                   const std::vector<parallel::NamedTensor>& buffers);

// Removes those that hold the same bits on every rank. All ranks have the same buffers. Collective.
void leave_different(const comm::Communicator& communicator,
                     std::vector<parallel::NamedTensor>& buffers);

}  // namespace convoy::train
