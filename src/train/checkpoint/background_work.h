// Work on a thread whose outcome is told to other ranks.
#pragma once

#include <chrono>
#include <future>
#include <string>

#include "convoy/base/error.h"

namespace convoy::train {

// What came of a thread's work: a result, or a mistake, or a failure, and its text.
inline constexpr char kDone = 'd', kUsage = 'u', kFailed = 'f';

template <class F>
std::string outcome_of(F&& work) {
  try {
    return kDone + work();
  } catch (const UsageError& error) {
    return kUsage + message_of(error);
  } catch (const std::exception& error) {
    return kFailed + message_of(error);
  }
}

inline std::string result_of(const std::string& outcome) {
  if (outcome[0] == kUsage) throw UsageError(outcome.substr(1));
  if (outcome[0] == kFailed) throw Failure(outcome.substr(1));
  return outcome.substr(1);
}

inline bool is_ready(const std::future<std::string>& work) {
  return work.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// Work on a thread, or done; asked from one thread.
class Work {
 public:
  template <class F>
  void start(F work) {
    future_ = std::async(std::launch::async, [work] { return outcome_of(work); });
  }
  void set(std::string outcome) { outcome_ = std::move(outcome); }
  bool busy() {
    if (future_.valid() && is_ready(future_)) outcome_ = future_.get();
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
