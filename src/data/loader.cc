#include "convoy/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "data/loader_slot.h"

namespace convoy::data {
namespace {

// Workers take samples a few at a time, so that tiny ones don't spend their time on the lock.
constexpr std::size_t kMostTaken = 64;
constexpr std::size_t kTakesPerWorker = 4;

void check(bool good, const std::string& message) {
  if (!good) throw UsageError("loader: " + message);
}

// Throws the current exception again with the example's name before its message.
[[noreturn]] void rethrow_naming(const std::string& key) {
  try {
    throw;
  } catch (const UsageError& error) {
    throw UsageError(key + ": " + error.what());
  } catch (const Failure& error) {
    throw Failure(key + ": " + error.what());
  }
}

}  // namespace

Shape output_shape(const Dataset& dataset, const TransformOptions& transform, OnBad on_bad) {
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    Shape stored;
    try {
      stored = shape_of(dataset.read(i, scratch));
    } catch (const UsageError&) {
      if (on_bad == OnBad::skip && i + 1 < dataset.size()) continue;
      rethrow_naming(dataset.key(i));
    }
    return Transformer(transform, stored).shape();
  }
  throw UsageError("the dataset is empty");
}

// One lock guards everything but the pixels of slots: those belong to the workers that have taken
// the samples, and once all are finished to the caller of next().
struct Loader::Impl {
  Impl(std::shared_ptr<const Dataset> data, const TransformOptions& transform,
       const LoaderOptions& loader_options);
  ~Impl();

  // Of the caller's thread.
  void seek(std::uint64_t epoch, std::size_t consumed);
  const Batch* next();

  // Of the workers. Under the lock:
  bool plan_batch();  // begins the next batch, if a slot is free
  void start_epoch(std::uint64_t new_epoch, std::size_t consumed);
  Slot* with_work();  // a batch with samples to take
  void finish(Slot& slot, std::size_t count);
  // Without it:
  void work();
  void make(Slot& slot, std::size_t place, Transformer& transformer,
            std::vector<std::byte>& scratch);
  void skip(std::size_t sample, const std::string& message);
  void stop();

  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  TransformOptions transform_options;
  Shape shape;
  int views = 1;
  std::size_t sample_bytes = 0;  // of a batch, per sample
  std::size_t largest_share = 0;
  std::size_t per_epoch = 0;
  std::vector<Slot> slots;

  mutable std::mutex mutex;
  std::condition_variable work_ready;   // workers wait
  std::condition_variable batch_ready;  // the caller waits
  bool stopping = false;
  bool running = false;       // false until the first next(), and during seek()
  std::size_t busy = 0;       // workers that are outside of the lock
  std::deque<Slot*> free;     // batches not in use
  std::deque<Slot*> planned;  // in order; the front is what next() returns
  Slot* held = nullptr;       // the caller's

  // The plan: what the next batch to begin is.
  std::uint64_t epoch = 0;
  std::shared_ptr<SampleOrder> order;
  std::optional<EpochCursor> cursor;  // in global batches

  Batch batch;  // of `held`
  std::uint64_t at_epoch = 0;
  std::size_t at_consumed = 0;
  bool at_end = false;  // of the epoch
  SourceStatistics statistics;
  std::set<std::size_t> named;  // bad samples that on_skip was told about
  std::vector<std::thread> workers;
};

Loader::Impl::Impl(std::shared_ptr<const Dataset> data, const TransformOptions& transform,
                   const LoaderOptions& loader_options)
    : dataset(std::move(data)), options(loader_options), transform_options(transform) {
  check(dataset != nullptr, "there is no dataset");
  const std::size_t size = dataset->size();
  check(size > 0, "the dataset is empty");
  check(options.batch > 0, "the global batch size is 0; it must be at least 1");
  check(options.threads >= 1 && options.threads <= 1024,
        "threads is " + std::to_string(options.threads) + "; it must be from 1 to 1024");
  check(options.ahead >= 1 && options.ahead <= 1024,
        "ahead is " + std::to_string(options.ahead) + "; it must be from 1 to 1024");
  const EpochCursor whole(size, 0, options.rank, options.world, options.drop_last);
  per_epoch = whole.steps_left_global(options.batch);
  check(per_epoch > 0, "the global batch of " + std::to_string(options.batch) +
                           " is larger than the dataset of " + std::to_string(size) +
                           " samples, and drop_last leaves out batches that are not full");
  order = options.order;
  if (!order) {
    order = std::make_shared<StaticOrder>(size, options.seed, options.shuffle, options.rank,
                                          options.world, options.least_share);
  }
  largest_share = order->largest_share(options.batch);

  shape = output_shape(*dataset, transform_options, options.on_bad);
  // All records must become what the first one is.
  transform_options.height = shape.height;
  transform_options.width = shape.width;
  views = Transformer(transform_options, shape).views();
  sample_bytes =
      shape.elements() * static_cast<std::size_t>(views) * size_of(transform_options.pixel);
  slots.resize(options.ahead + 2);
  for (Slot& slot : slots) {
    slot.images = make_pixels(largest_share * sample_bytes);
    slot.samples.reserve(largest_share);
    slot.labels.reserve(largest_share);
    slot.bad.reserve(largest_share);
    free.push_back(&slot);
  }
  start_epoch(0, 0);
  try {
    for (int i = 0; i < options.threads; ++i) workers.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw Failure("loader: starting " + std::to_string(options.threads) +
                  " threads: " + error.what());
  }
}

Loader::Impl::~Impl() { stop(); }

void Loader::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  work_ready.notify_all();
  for (std::thread& worker : workers) worker.join();
}

void Loader::Impl::start_epoch(std::uint64_t new_epoch, std::size_t consumed) {
  epoch = new_epoch;
  cursor.emplace(dataset->size(), consumed, 0, 1, options.drop_last);
}

bool Loader::Impl::plan_batch() {
  if (free.empty()) return false;
  const bool ends_epoch = cursor->steps_left_global(options.batch) == 0;
  if (!ends_epoch && !order->ready(epoch, cursor->consumed())) return false;
  Slot& slot = *free.front();
  free.pop_front();
  slot.epoch = epoch;
  slot.samples.clear();
  slot.labels.clear();
  slot.ends_epoch = ends_epoch;
  slot.skipped = slot.taken = 0;
  slot.error = nullptr;
  if (slot.ends_epoch) {
    slot.left = 0;
    start_epoch(epoch + 1, 0);
  } else {
    order->append_share(epoch, cursor->next_global(options.batch), slot.samples);
    slot.labels.resize(slot.samples.size());
    slot.left = slot.samples.size();
  }
  slot.bad.assign(slot.samples.size(), 0);
  slot.last = !slot.ends_epoch && cursor->steps_left_global(options.batch) == 0;
  slot.consumed = slot.ends_epoch ? 0 : slot.last ? dataset->size() : cursor->consumed();
  planned.push_back(&slot);
  if (slot.left == 0) batch_ready.notify_all();
  return true;
}

Slot* Loader::Impl::with_work() {
  for (Slot* slot : planned) {
    if (slot->taken < slot->samples.size()) return slot;
  }
  return nullptr;
}

void Loader::Impl::work() {
  // Made by the thread that uses them: memory close to its core.
  std::optional<Transformer> transformer;
  std::vector<std::byte> scratch;
  std::unique_lock lock(mutex);
  while (!stopping) {
    Slot* slot = running ? with_work() : nullptr;
    if (slot == nullptr) {
      if (!running || !plan_batch()) work_ready.wait(lock);
      continue;
    }
    const std::size_t share = slot->samples.size();
    const std::size_t takes = kTakesPerWorker * static_cast<std::size_t>(options.threads);
    const std::size_t count =
        std::min(std::clamp<std::size_t>(share / takes, 1, kMostTaken), share - slot->taken);
    const std::size_t first = slot->taken;
    slot->taken += count;
    ++busy;
    lock.unlock();
    const Clock::time_point began = Clock::now();
    if (!transformer) transformer.emplace(transform_options, shape);
    for (std::size_t i = 0; i < count; ++i) make(*slot, first + i, *transformer, scratch);
    const double took = seconds_since(began);
    lock.lock();
    --busy;
    statistics.decode_s += took;
    finish(*slot, count);
    if (!running && busy == 0) batch_ready.notify_all();  // seek() waits for it
  }
}

void Loader::Impl::finish(Slot& slot, std::size_t count) {
  slot.left -= count;
  if (slot.left > 0) return;
  // Good samples close the ranks, in order.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < slot.samples.size(); ++i) {
    if (slot.bad[i]) continue;
    if (kept != i) {
      std::copy_n(&slot.images[i * sample_bytes], sample_bytes, &slot.images[kept * sample_bytes]);
      slot.samples[kept] = slot.samples[i];
      slot.labels[kept] = slot.labels[i];
    }
    ++kept;
  }
  slot.skipped = slot.samples.size() - kept;
  slot.samples.resize(kept);
  slot.labels.resize(kept);
  slot.taken = kept;
  batch_ready.notify_all();
}

void Loader::Impl::make(Slot& slot, std::size_t place, Transformer& transformer,
                        std::vector<std::byte>& scratch) {
  const std::size_t sample = slot.samples[place];
  try {
    try {
      const Record record = dataset->read(sample, scratch);
      slot.labels[place] = record.label;
      RandomStream random = sample_stream(options.seed, slot.epoch, sample);
      transformer.apply(record, random, options.layout, &slot.images[place * sample_bytes]);
    } catch (const UsageError& error) {
      if (options.on_bad == OnBad::fail) rethrow_naming(dataset->key(sample));
      slot.bad[place] = 1;
      skip(sample, dataset->key(sample) + ": " + error.what());
    }
  } catch (...) {
    const std::lock_guard lock(mutex);
    if (!slot.error || place < slot.error_place) {
      slot.error = std::current_exception();
      slot.error_place = place;
    }
  }
}

void Loader::Impl::skip(std::size_t sample, const std::string& message) {
  {
    const std::lock_guard lock(mutex);
    if (!named.insert(sample).second) return;
  }
  if (options.on_skip) options.on_skip(message);
}

void Loader::Impl::seek(std::uint64_t new_epoch, std::size_t consumed) {
  std::unique_lock lock(mutex);
  running = false;
  batch_ready.wait(lock, [this] { return busy == 0; });
  if (held != nullptr) free.push_back(held);
  held = nullptr;
  free.insert(free.end(), planned.begin(), planned.end());
  planned.clear();
  start_epoch(new_epoch, consumed);
  at_epoch = new_epoch;
  at_consumed = consumed;
  at_end = cursor->steps_left_global(options.batch) == 0;
}

const Batch* Loader::Impl::next() {
  std::unique_lock lock(mutex);
  if (held != nullptr) {
    free.push_back(held);
    held = nullptr;
  }
  running = true;
  work_ready.notify_all();
  const auto ready = [this] { return !planned.empty() && planned.front()->left == 0; };
  if (!ready()) {
    const Clock::time_point began = Clock::now();
    batch_ready.wait(lock, ready);
    statistics.wait_s += seconds_since(began);
  }
  Slot& slot = *planned.front();
  if (slot.error) std::rethrow_exception(slot.error);
  planned.pop_front();
  at_epoch = slot.ends_epoch ? slot.epoch + 1 : slot.epoch;
  at_consumed = slot.consumed;
  at_end = slot.last;
  if (slot.ends_epoch) {
    free.push_back(&slot);
    work_ready.notify_all();
    return nullptr;
  }
  held = &slot;
  ++statistics.batches;
  statistics.samples += slot.samples.size();
  statistics.skipped += slot.skipped;
  batch.bytes = {slot.images.get(), slot.samples.size() * sample_bytes};
  if (transform_options.pixel == Pixel::f32) {
    batch.images = {reinterpret_cast<float*>(slot.images.get()),
                    batch.bytes.size() / sizeof(float)};
  }
  batch.labels = slot.labels;
  batch.samples = slot.samples;
  batch.shape = shape;
  batch.layout = options.layout;
  batch.pixel = transform_options.pixel;
  batch.views = views;
  return &batch;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
               const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), transform, options)) {}
Loader::~Loader() = default;

std::size_t Loader::size() const { return impl_->dataset->size(); }
std::size_t Loader::batches_per_epoch() const { return impl_->per_epoch; }
Shape Loader::shape() const { return impl_->shape; }

void Loader::seek(const Position& position) {
  // A store's order is the same as long as it is shuffled once before each epoch; and where an
  // epoch begins, any may follow.
  const bool begins = position.count() == 0 && position.generation <= position.epoch;
  const bool same =
      (position.generation == 0 || position.generation == position.epoch) && position.members == 0;
  check(begins || same, "a position of shuffle generation " + std::to_string(position.generation) +
                            "; a static order has generation 0");
  check(position.consumed.size() <= 1 &&
            (position.consumed.empty() || position.consumed[0].begin == 0),
        "a position with gaps; a static order is consumed from its begin");
  check(position.count() <= size(), "a position after " + std::to_string(position.count()) +
                                        " samples of " + std::to_string(size()) +
                                        ": was it saved with another data set?");
  impl_->seek(position.epoch, position.count());
}

const Batch* Loader::next() { return impl_->next(); }

Position Loader::position() const {
  Position position{impl_->at_epoch, 0, {}};
  if (impl_->at_consumed > 0) position.consumed.push_back({0, impl_->at_consumed});
  return position;
}

bool Loader::epoch_over() const { return impl_->at_end; }

SourceStatistics Loader::statistics() const {
  const std::lock_guard lock(impl_->mutex);
  SourceStatistics result = impl_->statistics;
  for (const Slot* slot : impl_->planned) {
    if (slot->left > 0) break;
    if (!slot->ends_epoch) ++result.ready;
  }
  return result;
}

}  // namespace convoy::data
