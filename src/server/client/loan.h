// Memory of a caller's that messages refer to while they are under way.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "convoy/base/clock.h"

namespace convoy::server::client {

// Parts of messages get its owner; when it says returned(), no copy of them is left anywhere, and
// the memory is the caller's again.
//
// Threads: one; owners may end in any.
class Loan {
 public:
  Loan() : state_(std::make_shared<State>()), owner_(std::make_shared<const Owner>(state_)) {}

  std::shared_ptr<const void> owner() const { return owner_; }

  // No more owners are given out. Waits until those that were have ended; false at the deadline.
  bool returned(Clock::time_point deadline) {
    owner_.reset();
    std::unique_lock lock(state_->mutex);
    return state_->ended.wait_until(lock, deadline, [this] { return state_->is_over; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    bool is_over = false;
  };
  struct Owner {
    explicit Owner(std::shared_ptr<State> state) : state(std::move(state)) {}
    ~Owner() {
      const std::lock_guard lock(state->mutex);
      state->is_over = true;
      state->ended.notify_all();
    }
    std::shared_ptr<State> state;
  };

  std::shared_ptr<State> state_;
  std::shared_ptr<const Owner> owner_;
};

}  // namespace convoy::server::client
