#include "train/run/set_up_watch.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

#include "comm/calling_threads.h"

namespace convoy::train {
namespace {

// As often as a rank tells the others.
constexpr std::chrono::milliseconds kAskEvery(100);

}  // namespace

SetUpWatch::SetUpWatch(const comm::Communicator& communicator, std::function<bool()> asked,
                       std::function<void()> leave)
    : asked_(std::move(asked)), leave_(std::move(leave)) {
  if (!leave_) return;
  if (communicator.size() > 1 && !comm::any_thread_may_call(communicator)) return;
  communicator_ = communicator.duplicate();
  thread_ = std::thread([this] {
    try {
      watch();
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

SetUpWatch::~SetUpWatch() {
  if (thread_.joinable()) end(State::giving_up);
}

void SetUpWatch::finish() {
  if (!thread_.joinable()) return;
  end(State::ready);
  if (failure_) std::rethrow_exception(failure_);
}

void SetUpWatch::end(State state) {
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }
  changed_.notify_all();
  thread_.join();
}

// What the ranks have said is the same on all of them, so that all end in the same round.
void SetUpWatch::watch() {
  enum { kAsked, kReady, kGivingUp, kSize };
  while (true) {
    std::array<std::int64_t, kSize> ranks{};
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kAskEvery, [this] { return state_ != State::watching; });
      ranks[kReady] = state_ == State::ready ? 1 : 0;
      ranks[kGivingUp] = state_ == State::giving_up ? 1 : 0;
    }
    ranks[kAsked] = asked_ && asked_() ? 1 : 0;
    communicator_.allreduce(comm::buffer_of(ranks), comm::ReduceOp::sum);
    // Why that rank gives up is the better thing to say.
    if (ranks[kGivingUp] > 0) return;
    if (ranks[kAsked] > 0) {
      communicator_.barrier();  // nobody is gone before all know it
      leave_();
      return;
    }
    if (ranks[kReady] == communicator_.size()) return;
  }
}

}  // namespace convoy::train
