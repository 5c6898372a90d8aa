// Batches that hold so much of something rather than so many samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "convoy/data/epoch_order.h"

namespace convoy::data {

// Cuts an epoch's order into global batches of at most `batch` units (tokens, say), and those into
// shares of about the same number of units. A sample that is larger than a batch is one by itself.
// Pure in (costs, seed, epoch, consumed), so all ranks cut alike. Not thread-safe.
class CostCutter {
 public:
  using Cost = std::function<std::uint64_t(std::size_t sample)>;

  // Asks for the cost of every sample, once, and throws what that throws. 0 counts as 1.
  CostCutter(std::size_t samples, const Cost& cost, std::uint64_t batch, std::uint64_t seed,
             bool shuffle);

  // The next batch begins after so many samples of this epoch.
  void start(std::uint64_t epoch, std::size_t consumed);
  std::size_t batches_left() const { return ends_.size() - next_; }
  std::size_t consumed() const { return consumed_; }
  // REQUIRES: batches_left() > 0.
  Range next();
  // Rank's part of a batch of this epoch: consecutive, and together they are the batch.
  Range share(Range batch, int rank, int world) const;
  std::size_t sample(std::size_t position) const { return (*order_)[position]; }

 private:
  std::uint64_t cost_of(std::size_t position) const { return costs_[sample(position)]; }

  std::vector<std::uint64_t> costs_;  // by sample
  std::uint64_t batch_;
  std::uint64_t seed_;
  bool shuffle_;
  std::uint64_t epoch_ = 0;
  std::optional<EpochOrder> order_;  // of epoch_
  std::vector<std::size_t> ends_;    // of batches, from where start() began
  std::size_t next_ = 0;             // in ends_
  std::size_t consumed_ = 0;
};

}  // namespace convoy::data
