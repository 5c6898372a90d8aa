#include "convoy/data/loader.h"

#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "data/loader/worker_pool.h"

namespace convoy::data {
namespace {

void check(bool good, const std::string& message) {
  if (!good) throw UsageError("loader: " + message);
}

void check_options(const Dataset* dataset, const LoaderOptions& options) {
  check(dataset != nullptr, "there is no dataset");
  check(dataset->size() > 0, "the dataset is empty");
  check(options.batch > 0, "the global batch size is 0; it must be at least 1");
  check(
      !options.cost ||
          (options.raw && !options.order && !options.drop_last && options.least_share == 1),
      "costs of samples are for raw records in a static order, without drop_last and least_share");
  check(!options.portions || (!options.order && !options.cost && !options.drop_last),
        "portions are for samples that count alike, in a static order, without drop_last");
  check(options.threads >= 1 && options.threads <= 1024,
        "threads is " + std::to_string(options.threads) + "; it must be from 1 to 1024");
  check(options.ahead >= 1 && options.ahead <= 1024,
        "ahead is " + std::to_string(options.ahead) + "; it must be from 1 to 1024");
}

}  // namespace

struct Loader::Impl {
  Impl(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
       const LoaderOptions& options)
      : maker((check_options(dataset.get(), options), std::move(dataset)), transform, options),
        layout(options.layout),
        workers(BatchPlanner(maker.dataset().size(), options), maker, options.ahead + 2,
                options.threads) {
    batches_left = workers.planner().batches_per_epoch();
  }

  const Batch* show(Slot& slot, Batch& batch) const;

  SampleMaker maker;
  Layout layout;
  WorkerPool workers;
  Batch current;  // what next() returns
  Batch upcoming;
  std::uint64_t epoch = 0;
  std::size_t consumed = 0;
  std::vector<Range> begun;  // where the epoch was gone on with, if not at a beginning of its order
  std::uint64_t begun_epoch = 0;
  std::size_t batches_left = 0;  // in the epoch
  bool at_end = false;           // of the epoch
};

const Batch* Loader::Impl::show(Slot& slot, Batch& batch) const {
  batch.number = slot.number;
  batch.bytes = {slot.images.get(), slot.samples.size() * maker.sample_bytes()};
  if (maker.raw()) {
    batch.records = {slot.records.data(), slot.samples.size()};
  } else if (maker.pixel() == Pixel::f32) {
    batch.images = {reinterpret_cast<float*>(slot.images.get()),
                    batch.bytes.size() / sizeof(float)};
  }
  batch.labels = slot.labels;
  if (maker.label_lists()) batch.label_lists = {slot.label_lists.data(), slot.samples.size()};
  batch.samples = slot.samples;
  batch.shape = maker.shape();
  batch.layout = layout;
  batch.pixel = maker.pixel();
  batch.views = maker.views();
  return &batch;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
               const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), transform, options)) {}
Loader::~Loader() = default;

std::size_t Loader::size() const { return impl_->maker.dataset().size(); }
std::size_t Loader::batches_per_epoch() const {
  return impl_->workers.planner().batches_per_epoch();
}
std::size_t Loader::batches_left() const { return impl_->batches_left; }
Shape Loader::shape() const { return impl_->maker.shape(); }

void Loader::seek(const Position& position) {
  // A store's order is the same as long as it is shuffled once before each epoch; and where an
  // epoch begins, any may follow.
  const bool begins = position.count() == 0 && position.generation <= position.epoch;
  const bool same =
      (position.generation == 0 || position.generation == position.epoch) && position.members == 0;
  check(begins || same, "a position of shuffle generation " + std::to_string(position.generation) +
                            "; a static order has generation 0");
  std::size_t end = 0;
  for (const Range& range : position.consumed) {
    check(range.begin >= end && range.end >= range.begin, "ranges of a position don't ascend");
    end = range.end;
  }
  check(position.count() <= size() && end <= size(),
        "a position after " + std::to_string(position.count()) + " samples of " +
            std::to_string(size()) + ": was it saved with another data set?");
  const auto left = impl_->workers.seek(position.epoch, position.consumed);
  check(left.has_value(),
        "a position of several parts, or with gaps; this order is consumed in one, from its begin");
  impl_->batches_left = *left;
  const bool gaps = position.consumed.size() > 1 || (end > 0 && position.consumed[0].begin > 0);
  impl_->begun = gaps ? position.consumed : std::vector<Range>();
  impl_->begun_epoch = position.epoch;
  impl_->at_end = impl_->batches_left == 0;
  impl_->epoch = position.epoch;
  impl_->consumed = position.count();
}

const Batch* Loader::next() {
  Impl& my = *impl_;
  Slot& slot = my.workers.next();
  my.epoch = slot.ends_epoch ? slot.epoch + 1 : slot.epoch;
  my.consumed = slot.consumed;
  my.at_end = slot.last;
  my.batches_left = slot.batches_left;
  return slot.ends_epoch ? nullptr : my.show(slot, my.current);
}

const Batch* Loader::upcoming() {
  Slot* const slot = impl_->workers.upcoming();
  return slot == nullptr ? nullptr : impl_->show(*slot, impl_->upcoming);
}

Position Loader::position() const {
  const Impl& my = *impl_;
  Position position{my.epoch, 0, {}};
  if (my.begun.empty() || my.begun_epoch != my.epoch) {
    if (my.consumed > 0) position.consumed.push_back({0, my.consumed});
    return position;
  }
  Position before;
  before.consumed = my.begun;
  position.consumed = consumed_further(my.begun, my.consumed - before.count(), size());
  return position;
}

bool Loader::epoch_over() const { return impl_->at_end; }

SourceStatistics Loader::statistics() const { return impl_->workers.statistics(); }

}  // namespace convoy::data
