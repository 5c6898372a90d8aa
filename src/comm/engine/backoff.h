// How a thread waits for something that nobody tells it of.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace convoy::comm {

// Yields for a few microseconds, since most answers come soon; then sleeps, longer and longer, so
// that more ranks than cores can live together.
class Backoff {
 public:
  explicit Backoff(std::chrono::microseconds longest) : longest_(longest) {}
  void pause() {
    if (yields_ < 50) {
      ++yields_;
      sched_yield();
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
