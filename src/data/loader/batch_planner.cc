#include "data/loader/batch_planner.h"

#include <string>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

std::shared_ptr<SampleOrder> order_of(std::size_t samples, const LoaderOptions& options) {
  if (options.order) return options.order;
  return std::make_shared<StaticOrder>(samples, options.seed, options.shuffle, options.rank,
                                       options.world, options.least_share);
}

}  // namespace

BatchPlanner::BatchPlanner(std::size_t samples, const LoaderOptions& options)
    : samples_(samples),
      batch_(options.batch),
      drop_last_(options.drop_last),
      order_(order_of(samples, options)),
      cursor_(cursor_at(0)),
      batches_per_epoch_(cursor_.steps_left(batch_)) {
  even_share({0, 0}, options.rank, options.world);  // throws for a rank that can't be
  if (batches_per_epoch_ > 0) return;
  throw UsageError("loader: the global batch of " + std::to_string(batch_) +
                   " is larger than the dataset of " + std::to_string(samples_) +
                   " samples, and drop_last leaves out batches that are not full");
}

void BatchPlanner::start(std::uint64_t epoch, std::size_t consumed) {
  epoch_ = epoch;
  cursor_ = cursor_at(consumed);
}

bool BatchPlanner::plan(Slot& slot) {
  const bool ends_epoch = at_end();
  if (!ends_epoch && !order_->ready(epoch_, cursor_.consumed())) return false;
  slot.epoch = epoch_;
  slot.ends_epoch = ends_epoch;
  slot.samples.clear();
  slot.last = false;
  slot.consumed = 0;
  if (ends_epoch) {
    start(epoch_ + 1, 0);
  } else {
    order_->append_share(epoch_, cursor_.next(batch_), slot.samples);
    slot.last = at_end();
    slot.consumed = slot.last ? samples_ : cursor_.consumed();
  }
  slot.labels.resize(slot.samples.size());
  slot.bad.assign(slot.samples.size(), 0);
  slot.left = slot.samples.size();
  slot.skipped = slot.taken = 0;
  slot.error = nullptr;
  return true;
}

}  // namespace convoy::data
