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
      nothing_(options.nothing),
      rank_(options.rank),
      world_(options.world),
      order_(order_of(samples, options)),
      portions_(options.portions),
      cursor_(cursor_at(0)) {
  even_share({0, 0}, options.rank, options.world);  // throws for a rank that can't be
  if (!options.order) static_order_ = static_cast<StaticOrder*>(order_.get());
  if (options.cost) cutter_.emplace(samples, options.cost, batch_, options.seed, options.shuffle);
  batches_per_epoch_ = batches_left();
  if (batches_per_epoch_ > 0) return;
  throw UsageError("loader: the global batch of " + std::to_string(batch_) +
                   " is larger than the dataset of " + std::to_string(samples_) +
                   " samples, and drop_last leaves out batches that are not full");
}

void BatchPlanner::start(std::uint64_t epoch, std::size_t consumed) {
  epoch_ = epoch;
  cursor_ = cursor_at(consumed);
  if (cutter_) cutter_->start(epoch, consumed);
}

bool BatchPlanner::start(std::uint64_t epoch, const std::vector<Range>& consumed) {
  const bool begins = consumed.empty() || (consumed.size() == 1 && consumed[0].begin == 0);
  if (!begins && (static_order_ == nullptr || cutter_)) return false;
  if (static_order_ != nullptr)
    static_order_->go_on(epoch, begins ? std::vector<Range>() : consumed);
  std::size_t count = 0;
  for (const Range& range : consumed) count += range.size();
  start(epoch, count);
  return true;
}

void BatchPlanner::append_share(std::vector<std::size_t>& samples) {
  const Range batch = cutter_ ? cutter_->next() : cursor_.next(batch_);
  if (nothing_) return;
  if (!cutter_) return order_->append_share(epoch_, batch, samples);
  const Range share = cutter_->share(batch, rank_, world_);
  for (std::size_t p = share.begin; p < share.end; ++p) samples.push_back(cutter_->sample(p));
}

bool BatchPlanner::plan_portion(Slot& slot) {
  const auto part = portions_->next(batch_);
  if (!part) return false;
  slot.epoch = part->epoch;
  slot.consumed = part->positions.end;
  if (!nothing_) order_->append_share(part->epoch, part->positions, slot.samples);
  return true;
}

bool BatchPlanner::plan(Slot& slot) {
  const bool ends_epoch = at_end();
  if (!portions_ && !ends_epoch && !cutter_ && !order_->ready(epoch_, cursor_.consumed()))
    return false;
  slot.epoch = epoch_;
  slot.ends_epoch = ends_epoch;
  slot.samples.clear();
  slot.last = false;
  slot.consumed = slot.batches_left = 0;
  if (portions_) {
    if (!plan_portion(slot)) return false;
  } else if (ends_epoch) {
    start(epoch_ + 1, 0);
    slot.batches_left = batches_left();
  } else {
    append_share(slot.samples);
    slot.last = at_end();
    slot.consumed = slot.last ? samples_ : cutter_ ? cutter_->consumed() : cursor_.consumed();
    slot.batches_left = batches_left();
  }
  if (slot.records.size() < slot.samples.size()) slot.records.resize(slot.samples.size());
  if (slot.label_lists.size() < slot.samples.size()) slot.label_lists.resize(slot.samples.size());
  slot.labels.resize(slot.samples.size());
  slot.bad.assign(slot.samples.size(), 0);
  slot.left = slot.samples.size();
  slot.skipped = slot.taken = 0;
  slot.error = nullptr;
  return true;
}

}  // namespace convoy::data
