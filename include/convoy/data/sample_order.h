// This says which samples a rank gets for which global batch: what a Loader (convoy/data/loader.h)
// asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/data/epoch_order.h"

namespace convoy::data {

// This is the order of each epoch, of count samples, and this rank's share of any part of it. The
// shares of all ranks together are that part. A loader calls it under its lock, one call at a time.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;

  // Gives the largest share of `batch` consecutive positions.
  virtual std::size_t largest_share(std::size_t batch) const = 0;
  // Says whether the batch that begins at this position of the epoch may be prepared already. A
  // loader asks again when seek() or next() is called.
  virtual bool ready(std::uint64_t epoch, std::size_t position) const = 0;
  // Appends this rank's share of these positions. ready(epoch, batch.begin) must hold. What it
  // throws, the loader's next() throws in the place of that batch, and again until a seek().
  virtual void append_share(std::uint64_t epoch, Range batch,
                            std::vector<std::size_t>& samples) = 0;
};

// EpochOrder, and consecutive, even shares, of at least `least_share` samples each.
class StaticOrder final : public SampleOrder {
 public:
  // Throws UsageError unless 0 <= rank < world and least_share >= 1.
  StaticOrder(std::size_t count, std::uint64_t seed, bool shuffle, int rank, int world,
              std::size_t least_share = 1);

  std::size_t largest_share(std::size_t batch) const override;
  bool ready(std::uint64_t, std::size_t) const override { return true; }
  void append_share(std::uint64_t epoch, Range batch, std::vector<std::size_t>& samples) override;
  // Says that this epoch goes on where these positions are consumed: their samples stand first, the
  // others follow. Every other epoch is as it would be, and this one where there are none.
  void go_on(std::uint64_t epoch, const std::vector<Range>& consumed);

 private:
  std::size_t count_;
  std::uint64_t seed_;
  bool shuffle_;
  int rank_;
  int world_;
  std::size_t least_share_;
  std::optional<EpochOrder> order_;  // of order_epoch_
  std::uint64_t order_epoch_ = 0;
  std::vector<Range> begun_;  // what go_on() was told
  std::uint64_t begun_epoch_ = 0;
};

}  // namespace convoy::data
