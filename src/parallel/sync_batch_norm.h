// Batch normalization over the batches of all ranks.
#pragma once

#include <torch/torch.h>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/distributed_model.h"

namespace convoy::parallel {

// While one is alive on a thread, every batch normalization in training mode that the thread runs
// takes its statistics over all ranks: the modules of LibTorch as they are, since aten::batch_norm
// itself is asked. The backward pass, which may run later, communicates too.
struct SynchronizedBatchNorm {
  const comm::Communicator* communicator = nullptr;
  bool weight_by_samples = true;
  double share = 1;            // what this rank's samples of an update count
  std::uint16_t next_key = 0;  // counts the layers of one forward pass
  NormalizationSeconds seconds;
};

// Makes it current on this thread (null: none) and returns the one before.
SynchronizedBatchNorm* exchange_synchronized_batch_norm(SynchronizedBatchNorm* scope);

}  // namespace convoy::parallel
