#include "data/loader/worker_pool.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::data {
namespace {

// Workers take samples a few at a time, so that tiny ones don't spend their time on the lock.
constexpr std::size_t kMostTaken = 64;
constexpr std::size_t kTakesPerWorker = 4;

}  // namespace

WorkerPool::WorkerPool(BatchPlanner planner, SampleMaker& maker, std::size_t slots, int threads)
    : planner_(std::move(planner)), maker_(maker), slots_(slots) {
  const std::size_t largest = planner_.largest_share();
  for (Slot& slot : slots_) {
    slot.images = maker_.memory_for(largest);
    slot.samples.reserve(largest);
    slot.labels.reserve(largest);
    slot.bad.reserve(largest);
    free_.push_back(&slot);
  }
  try {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw Failure("loader: starting " + std::to_string(threads) + " threads: " + error.what());
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// What it throws is the caller's of next(), once the batches before are used: it would end the
// process from here. The planner may then be in the middle of a batch, so that it goes on with a
// seek() alone.
bool WorkerPool::plan_batch() {
  if (free_.empty() || planning_error_) return false;
  Slot& slot = *free_.front();
  try {
    if (!planner_.plan(slot)) return false;
  } catch (const std::bad_alloc&) {
    planning_error_ = std::make_exception_ptr(
        Failure("loader: there is no memory on this host for the order of the samples"));
  } catch (...) {
    planning_error_ = std::current_exception();
  }
  if (planning_error_) {
    batch_ready_.notify_all();
    return false;
  }
  free_.pop_front();
  slot.number = ++numbered_;
  planned_.push_back(&slot);
  if (slot.left == 0) batch_ready_.notify_all();
  return true;
}

Slot* WorkerPool::with_work() {
  for (Slot* slot : planned_) {
    if (slot->taken < slot->samples.size()) return slot;
  }
  return nullptr;
}

std::size_t WorkerPool::take(Slot& slot) const {
  const std::size_t takes = kTakesPerWorker * std::max<std::size_t>(workers_.size(), 1);
  return std::min(std::clamp<std::size_t>(slot.samples.size() / takes, 1, kMostTaken),
                  slot.samples.size() - slot.taken);
}

void WorkerPool::work() {
  SampleMaker::Scratch scratch;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Slot* const slot = running_ ? with_work() : nullptr;
    if (slot == nullptr) {
      if (!running_ || !plan_batch()) work_ready_.wait(lock);
      continue;
    }
    const std::size_t first = slot->taken, count = take(*slot);
    slot->taken += count;
    ++busy_;
    lock.unlock();
    const Clock::time_point began = Clock::now();
    std::exception_ptr error;
    std::size_t error_place = 0;
    for (std::size_t place = first; place < first + count; ++place) {
      try {
        maker_.make(*slot, place, scratch);
      } catch (...) {
        if (!error) error_place = place;
        if (!error) error = std::current_exception();
      }
    }
    const double took = seconds_since(began);
    lock.lock();
    --busy_;
    statistics_.decode_s += took;
    if (error && (!slot->error || error_place < slot->error_place)) {
      slot->error = error;
      slot->error_place = error_place;
    }
    finish(*slot, count);
    if (busy_ == 0) all_idle_.notify_all();
  }
}

void WorkerPool::finish(Slot& slot, std::size_t count) {
  slot.left -= count;
  if (slot.left > 0) return;
  maker_.close_gaps(slot);
  batch_ready_.notify_all();
}

std::optional<std::size_t> WorkerPool::seek(std::uint64_t epoch,
                                            const std::vector<Range>& consumed) {
  std::unique_lock lock(mutex_);
  running_ = false;
  all_idle_.wait(lock, [this] { return busy_ == 0; });
  if (held_ != nullptr) free_.push_back(held_);
  held_ = nullptr;
  free_.insert(free_.end(), planned_.begin(), planned_.end());
  planned_.clear();
  planning_error_ = nullptr;
  if (!planner_.start(epoch, consumed)) return std::nullopt;
  return planner_.batches_left();
}

Slot& WorkerPool::next() {
  std::unique_lock lock(mutex_);
  if (held_ != nullptr) free_.push_back(held_);
  held_ = nullptr;
  running_ = true;
  work_ready_.notify_all();
  const auto ready = [this] {
    return planned_.empty() ? planning_error_ != nullptr : planned_.front()->left == 0;
  };
  if (!ready()) {
    const Clock::time_point began = Clock::now();
    batch_ready_.wait(lock, ready);
    statistics_.wait_s += seconds_since(began);
  }
  if (planned_.empty()) std::rethrow_exception(planning_error_);
  Slot& slot = *planned_.front();
  if (slot.error) std::rethrow_exception(slot.error);
  planned_.pop_front();
  held_ = &slot;
  if (!slot.ends_epoch) {
    ++statistics_.batches;
    statistics_.samples += slot.samples.size();
    statistics_.skipped += slot.skipped;
  }
  return slot;
}

Slot* WorkerPool::upcoming() {
  const std::lock_guard lock(mutex_);
  if (planned_.empty()) return nullptr;
  Slot* const slot = planned_.front();
  return slot->left == 0 && !slot->error && !slot->ends_epoch ? slot : nullptr;
}

SourceStatistics WorkerPool::statistics() const {
  const std::lock_guard lock(mutex_);
  SourceStatistics result = statistics_;
  for (const Slot* slot : planned_) {
    if (slot->left > 0) break;
    if (!slot->ends_epoch) ++result.ready;
  }
  return result;
}

}  // namespace convoy::data
