// Which samples the batches of a loader hold, one batch after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "convoy/data/loader.h"
#include "data/loader/cost_cutter.h"
#include "data/loader/slot.h"

namespace convoy::data {

// Not thread-safe: a loader's lock guards it.
class BatchPlanner {
 public:
  // Plans batches of a data set of so many samples, from epoch 0 on. Throws UsageError for options
  // that don't fit it.
  BatchPlanner(std::size_t samples, const LoaderOptions& options);

  std::size_t batches_per_epoch() const { return batches_per_epoch_; }
  // Samples of a batch that can be this rank's; 0 where only the samples say how many.
  std::size_t largest_share() const {
    return cutter_ || nothing_ ? 0 : order_->largest_share(batch_);
  }

  // The next batch begins after so many samples of this epoch.
  void start(std::uint64_t epoch, std::size_t consumed);
  // After these positions, which need not be the beginning of the order. False, and nothing
  // happened, where they are not and the order knows no such thing.
  bool start(std::uint64_t epoch, const std::vector<Range>& consumed);
  std::size_t batches_left() const {
    return cutter_ ? cutter_->batches_left() : cursor_.steps_left(batch_);
  }
  // Whether nothing of the epoch is left.
  bool at_end() const { return !portions_ && batches_left() == 0; }

  // Plans the next batch, or the end of the epoch: says in `slot` what it will hold, of which
  // nothing is made yet. False, and the slot as it was, when the order is not ready for it.
  bool plan(Slot& slot);

 private:
  // The next batch of a portion; false where there is none.
  bool plan_portion(Slot& slot);
  // Appends this rank's share of the next batch, on which the cursor moves.
  void append_share(std::vector<std::size_t>& samples);
  EpochCursor cursor_at(std::size_t consumed) const {
    return {samples_, consumed, 0, 1, drop_last_};
  }

  std::size_t samples_;
  std::size_t batch_;  // global
  bool drop_last_;
  bool nothing_;
  int rank_;
  int world_;
  std::shared_ptr<SampleOrder> order_;
  StaticOrder* static_order_ = nullptr;  // the same, if it is one
  std::shared_ptr<Portions> portions_;   // null: whole epochs
  std::uint64_t epoch_ = 0;
  EpochCursor cursor_;                // in global batches
  std::optional<CostCutter> cutter_;  // instead of order and cursor, where samples have costs
  std::size_t batches_per_epoch_;
};

}  // namespace convoy::data
