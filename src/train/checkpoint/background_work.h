// Work on a thread whose outcome is told to other ranks.
#pragma once

#include <chrono>
#include <future>
#include <string>
#include <system_error>

#include "train/outcome.h"

namespace convoy::train {

// Work on a thread, or done; asked from one thread.
class Work {
 public:
  // Runs it on a thread; where there can be no more of them, here.
  template <class F>
  void start(F work) {
    try {
      future_ = std::async(std::launch::async, [work] { return outcome_of(work); });
    } catch (const std::system_error&) {
      outcome_ = outcome_of(work);
    }
  }
  void set(std::string outcome) { outcome_ = std::move(outcome); }
  // Waits for its end for so long.
  bool busy(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) {
    if (future_.valid() && future_.wait_for(patience) == std::future_status::ready)
      outcome_ = future_.get();
    return future_.valid();
  }
  // Empty: there was no work, or it is not done.
  const std::string& outcome() const { return outcome_; }
  bool failed() const { return !outcome_.empty() && outcome_[0] != kDone; }

 private:
  std::future<std::string> future_;
  std::string outcome_;
};

}  // namespace convoy::train
