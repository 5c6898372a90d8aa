// Time that is made up, for nodes and their authority: it passes as fast as they keep up with it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "convoy/base/clock.h"

namespace convoy::server::host::test {

// Whoever lives has to be heard of again and again: the time waits for that, so that nobody is
// taken for dead because it waits for a core. Only where somebody who lives is not heard of at all
// it goes on as fast as the machine's own.
class PacedTime {
 public:
  PacedTime() : thread_([this] { run(); }) {}
  ~PacedTime() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  PacedTime(const PacedTime&) = delete;
  PacedTime& operator=(const PacedTime&) = delete;

  Clock::time_point now() const { return Clock::time_point(std::chrono::microseconds(now_)); }

  // From now on this has to be heard of, or not any more.
  void expect(const std::string& what, bool expected = true) {
    const std::lock_guard lock(mutex_);
    if (expected) {
      heard_.try_emplace(what, now());
    } else {
      heard_.erase(what);
    }
  }
  void hear(const std::string& what) {
    const std::lock_guard lock(mutex_);
    const auto found = heard_.find(what);
    if (found != heard_.end()) found->second = now();
  }

  // It stands from now on, or goes on.
  void stand(bool still) { stands_ = still; }
  // Not faster than the machine's own from now on, or as fast as may be.
  void hurry(bool fast) { hurries_ = fast; }

 private:
  static constexpr auto kStep = std::chrono::milliseconds(20);
  // Much less than any lease, and more than there is between two signs of life.
  static constexpr auto kSilence = std::chrono::milliseconds(300);

  void run() {
    std::unique_lock lock(mutex_);
    auto before = Clock::now();
    while (!changed_.wait_for(lock, std::chrono::milliseconds(1), [this] { return ends_; })) {
      const auto after = Clock::now();
      // Time in which this thread had no core is none.
      const auto passed = std::min<Clock::duration>(after - std::exchange(before, after), kStep);
      if (stands_) continue;
      now_ +=
          std::chrono::duration_cast<std::chrono::microseconds>(fast() ? kStep : passed).count();
    }
  }
  bool fast() const {
    return hurries_ && std::all_of(heard_.begin(), heard_.end(), [&](const auto& each) {
             return each.second + kSilence > now();
           });
  }

  std::atomic<std::int64_t> now_ = std::int64_t{3'600'000'000};  // microseconds
  std::atomic<bool> stands_ = false, hurries_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::map<std::string, Clock::time_point> heard_;
  std::thread thread_;
};

}  // namespace convoy::server::host::test
