// Threads that make batches ahead of need.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/loader/batch_planner.h"
#include "data/loader/sample_maker.h"
#include "data/loader/slot.h"

namespace convoy::data {

// Workers take samples of the first planned batch that has some left, and plan the next batch when
// there is none and a slot is free. One lock guards everything but the pixels of slots: those
// belong to the workers that have taken the samples, and once all are made to the caller of next().
//
// seek() and next() are one thread's.
class WorkerPool {
 public:
  // `slots` batches, one of which is the caller's. The workers begin with the first next(). Throws
  // Failure when the system has no more threads.
  WorkerPool(BatchPlanner planner, SampleMaker& maker, std::size_t slots, int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Drops what is prepared; the next batch begins there. Afterwards no worker reads anything until
  // next(). Returns how many batches are left in the epoch.
  // Nothing where the order can't go on from there.
  std::optional<std::size_t> seek(std::uint64_t epoch, const std::vector<Range>& consumed);
  // The next batch, or end of an epoch, once it is made; the caller's until the next call. Throws
  // the error of its first sample that has one, or of its planning, and again at each call until a
  // seek().
  Slot& next();
  // The batch that next() is going to return, if it is made; null where that is not known, or an
  // end of an epoch. To read only.
  Slot* upcoming();

  SourceStatistics statistics() const;
  const BatchPlanner& planner() const { return planner_; }

 private:
  void work();
  // Under the lock:
  Slot* with_work();                   // a batch with samples to take
  bool plan_batch();                   // begins the next one, if a slot is free
  std::size_t take(Slot& slot) const;  // how many samples at once
  void finish(Slot& slot, std::size_t count);
  void stop();

  BatchPlanner planner_;
  SampleMaker& maker_;
  std::vector<Slot> slots_;
  mutable std::mutex mutex_;
  std::condition_variable work_ready_;   // workers wait
  std::condition_variable batch_ready_;  // next() waits
  std::condition_variable all_idle_;     // seek() waits
  bool stopping_ = false;
  bool running_ = false;               // false until the first next(), and during seek()
  std::size_t busy_ = 0;               // workers that are outside of the lock
  std::deque<Slot*> free_;             // batches not in use
  std::deque<Slot*> planned_;          // in order; the front is what next() returns
  std::exception_ptr planning_error_;  // of the batch after those
  Slot* held_ = nullptr;               // the caller's
  std::uint64_t numbered_ = 0;         // batches that were planned so far
  SourceStatistics statistics_;
  std::vector<std::thread> workers_;
};

}  // namespace convoy::data
