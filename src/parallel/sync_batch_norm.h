// Batch normalization over the batches of all ranks.
#pragma once

#include <torch/torch.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/distributed_model.h"

namespace convoy::parallel {

// Sums of statistics over several replicas of this process, each of which has a thread, and over
// ranks. Replicas come to the same sums in the same order, as they have the same layers: where one
// comes it waits for the others. Reproducible sums take each for a contribution of its own.
class StatisticsSum {
 public:
  // The communicator is for these sums alone.
  StatisticsSum(comm::Communicator communicator, std::size_t replicas);

  // Adds up a contiguous float64 tensor on the CPU, in place. Throws OtherSourceEnded where another
  // replica has ended, and Failure where one doesn't come before the world's timeout.
  void add(std::size_t replica, at::Tensor& values, comm::Match match);
  // Ends the waiting of all replicas, now and later.
  void fail(const std::string& why);

 private:
  void reduce(comm::Match match);

  const comm::Communicator communicator_;
  const std::size_t replicas_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<at::Tensor*> values_;  // by replica; null: not there yet
  std::size_t missing_;
  std::uint64_t sums_ = 0;
  std::exception_ptr error_;
};

// While one is alive on a thread, every batch normalization in training mode that the thread runs
// takes its statistics over all ranks: the modules of LibTorch as they are, since aten::batch_norm
// itself is asked. The backward pass, which may run later, communicates too.
struct SynchronizedBatchNorm {
  const comm::Communicator* communicator = nullptr;
  bool weight_by_samples = true;
  double share = 1;            // what this rank's samples of an update count
  std::uint16_t next_key = 0;  // counts the layers of one forward pass
  NormalizationSeconds seconds;
  // Of one of several replicas of this process, whose `share` is of its own samples; else null.
  StatisticsSum* replicas = nullptr;
  std::size_t replica = 0;
};

// Makes it current on this thread (null: none) and returns the one before.
SynchronizedBatchNorm* exchange_synchronized_batch_norm(SynchronizedBatchNorm* scope);

}  // namespace convoy::parallel
