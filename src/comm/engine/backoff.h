// How a thread waits for something that nobody tells it of.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "convoy/base/clock.h"

namespace convoy::comm {

// Gives the core to whoever wants it. True if somebody did, and computed for a while: Linux counts
// each yield beside such a one as a turn that was used, and who has used many goes last when it has
// something to do; so it should sleep.
inline bool yield_is_long() {
  constexpr auto kLong = std::chrono::microseconds(50);
  const auto before = Clock::now();
  sched_yield();
  return Clock::now() - before > kLong;
}

// Yields for a few microseconds, since most answers come soon; then, or as soon as others compute
// on this core, sleeps, longer and longer, so that more ranks than cores can live together.
class Backoff {
 public:
  explicit Backoff(std::chrono::microseconds longest) : longest_(longest) {}
  void pause() {
    constexpr int kYields = 50;
    if (yields_ < kYields) {
      yields_ = yield_is_long() ? kYields : yields_ + 1;
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, longest_);
  }
  void reset() {
    yields_ = 0;
    sleep_ = std::chrono::microseconds(10);
  }

 private:
  int yields_ = 0;
  std::chrono::microseconds sleep_ = std::chrono::microseconds(10);
  std::chrono::microseconds longest_;
};

}  // namespace convoy::comm
