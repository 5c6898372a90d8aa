// Measured seconds.
#pragma once

#include <ctime>
#include <functional>
#include <utility>

#include "convoy/base/clock.h"

namespace convoy::train {

// Measures the time on the wall, or what the threads of this process have computed, divided by
// their number: that doesn't count what others did meanwhile, nor where a quota lets this process
// wait.
class Stopwatch {
 public:
  // 0 threads stand for the wall. `settle` waits for what was only begun, as on a GPU, before the
  // time is taken.
  explicit Stopwatch(int threads = 0, std::function<void()> settle = {})
      : threads_(threads), settle_(std::move(settle)), start_(now()) {}

  void restart() { start_ = now(); }
  double seconds() const { return now() - start_; }

 private:
  double now() const {
    if (settle_) settle_();
    if (threads_ == 0) {
      return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    }
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)) / threads_;
  }

  int threads_;
  std::function<void()> settle_;
  double start_;
};

}  // namespace convoy::train
