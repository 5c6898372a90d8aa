// How long there is patience with a role that was told to end. It knows no processes, and the time
// it is given.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "cli/launch/processes.h"
#include "convoy/base/clock.h"

namespace convoy::cli {

// What a supervisor takes after the grace, with end_descendants(). One that takes longer is killed.
inline constexpr std::chrono::milliseconds kSupervisorsShare{8000};
// This passes between one step against a process that doesn't end and the next.
inline constexpr std::chrono::milliseconds kInsist{2500};
// This is what mpirun has to tell another host, from SIGTERM to SIGKILL.
inline constexpr std::chrono::milliseconds kMpirunsShare{5000};

// Says when the next step against a role and its supervisor is due.
class RolePatience {
 public:
  void told(Clock::time_point now, Clock::duration grace) {
    due_ = now + grace + kSupervisorsShare;
  }
  // Is called when it is told again: there is no patience any more.
  void told_again(Clock::time_point now) { due_ = now + kInsist; }
  // Gives when it is killed next, if it was told.
  const std::optional<Clock::time_point>& due() const { return due_; }
  // Whether it is to be killed now.
  bool next(Clock::time_point now) {
    if (!due_ || now < *due_) return false;
    due_ = now + kInsist;
    return true;
  }

 private:
  std::optional<Clock::time_point> due_;
};

// Says when the next step against the one process of a role that is to be killed is due: a
// supervisor, or an mpirun.
class KillPatience {
 public:
  // An mpirun is told by SIGTERM. True the first time.
  bool tell_mpirun(Clock::time_point now) {
    return !std::exchange(mpirun_told_at_, mpirun_told_at_.value_or(now));
  }
  // It is to be killed. False where there is an mpirun, which has its share of the time first.
  bool kill(Clock::time_point now, bool mpirun) {
    if (mpirun && now - mpirun_told_at_.value_or(now) < kMpirunsShare) return false;
    if (!killed_at_) killed_at_ = now;
    return true;
  }
  // Whether that was of no use.
  bool is_over(Clock::time_point now) const {
    return killed_at_ && now - *killed_at_ >= kKillPatience;
  }

 private:
  std::optional<Clock::time_point> mpirun_told_at_;
  std::optional<Clock::time_point> killed_at_;
};

}  // namespace convoy::cli
