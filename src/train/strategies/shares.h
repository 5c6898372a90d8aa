// Whether batches can be shared out so that each rank can use its part, and what its part counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/train/strategy.h"

namespace convoy::train {

// Who gets even shares of a batch: ranks, or replicas of several ranks that compute theirs
// together.
struct Sharers {
  std::size_t count = 1;
  const char* name = "rank";
  // Whether fewer of them get samples where these aren't enough for all (Strategy::least_share):
  // of files, which any rank can read.
  bool fewer_may_share = true;
};
// Gives all ranks of the world.
Sharers all_ranks(const TrainerContext& context);

// Throws UsageError unless each of them gets a sample of every micro-batch: all have to take part
// in the statistics of every layer.
void check_synchronized_shares(const TrainerContext& context, const Sharers& sharers);

// Throws UsageError when a batch comes up that leaves one of them with samples, but with fewer than
// `least`.
void check_least_share(const TrainerContext& context, std::size_t least, const Sharers& sharers);

// What these rows of a batch count. Throws UsageError unless they count nothing or something that
// gradients can be averaged by.
double weight_of(const TrainerContext& context, const data::Batch& batch, data::Range rows);

// What is left out of training: samples of shares that are left with too few, since others of
// theirs were bad. One thread.
class LeftOut {
 public:
  // Adds all samples that are left out of this batch. Warns of the first there is.
  void add(const TrainerContext& context, const data::Batch& batch);
  std::uint64_t samples() const { return samples_; }

 private:
  std::uint64_t samples_ = 0;
};

}  // namespace convoy::train
