// When a supervisor ends its program, and itself. It knows no processes, and the time it is given.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "convoy/base/clock.h"

namespace convoy::cli {

inline constexpr std::chrono::milliseconds kGrace{3000};      // of a rank, from SIGTERM to SIGKILL
inline constexpr std::chrono::milliseconds kHoldPlace{2000};  // see supervise()
// How soon a supervisor sees at the latest that its parent is gone.
inline constexpr std::chrono::milliseconds kParentCheck{500};
inline constexpr std::chrono::milliseconds kKillLeftovers{1000};
// From SIGTERM to SIGKILL for a role whose job is gone: long enough for `convoy run` to end its
// ranks. What it leaves running then takes up to 5 s.
inline constexpr std::chrono::milliseconds kOrphanedRole{4500};

class ProgramEnd {
 public:
  // `grace` of the program, from SIGTERM to SIGKILL.
  ProgramEnd(std::chrono::milliseconds grace, bool is_role) : grace_(grace), is_role_(is_role) {}

  // It was asked to end. True the first time, when it is to be told: both the launcher and mpirun
  // may ask, and programs tend to take a second SIGTERM for "now".
  bool ask(Clock::time_point now) {
    if (asked_at_) return false;
    asked_at_ = now;
    return true;
  }
  bool is_asked() const { return asked_at_.has_value(); }
  // Whether it has had its grace. Then it is killed, or, if it has ended, nobody takes its output.
  bool is_over(Clock::time_point now) const { return asked_at_ && now - *asked_at_ >= grace_; }

  // Whoever started the supervisor is gone: until when the program may go on. A rank may not, a
  // role is told to end.
  Clock::time_point orphaned(Clock::time_point now) const {
    return is_role_ ? now + std::min(grace_, kOrphanedRole) : now;
  }

 private:
  const std::chrono::milliseconds grace_;
  const bool is_role_;
  std::optional<Clock::time_point> asked_at_;
};

}  // namespace convoy::cli
