// The thread in which a coordinator waits for its store.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/log.h"
#include "server/coordinator/effects.h"
#include "server/coordinator/state_store.h"

namespace convoy::server::coordinator {

// Writes in order, and again until the store can be reached; what waits is written together.
class StoreThread {
 public:
  using Stored = std::function<void(std::uint64_t ticket)>;
  using Ended = std::function<void(const Changed&)>;

  // REQUIRES: the store outlives it. `ended` is called once at most: nothing is written any more.
  StoreThread(StateStore& store, std::uint64_t term, Stored stored, Ended ended, convoy::Log log);
  ~StoreThread();  // gives up what is still to do
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  void write(StoreWrites writes);
  // After the writes before it. Not called when this ends first.
  void run(std::function<void()> what);
  void end(const Changed& why);  // from a thread of `run`
  // Waits until all that was given is done, at most until the deadline, and settles the store.
  void finish(Clock::time_point deadline);

 private:
  struct Item {
    std::optional<StoreWrites> writes;
    std::function<void()> what;
  };

  void loop();
  void settle();
  bool store_writes(const StoreWrites& writes);
  std::optional<Item> next();

  StateStore& store_;
  const std::uint64_t term_;
  const Stored stored_;
  const Ended ended_;
  const convoy::Log log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false, stopping_ = false, ended_once_ = false;
  Clock::time_point settle_at_;
  std::thread thread_;
};

}  // namespace convoy::server::coordinator
