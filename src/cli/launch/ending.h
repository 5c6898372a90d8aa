// When what is done to bring a job to its end. It knows no processes, and the time it is given.
#pragma once

#include <chrono>
#include <optional>

#include "convoy/base/clock.h"

namespace convoy::cli {

// Each step waits so long for the one before it to be enough. Ranks that fail for the same reason
// at nearly the same time get to say so before the rest is ended; from then on the supervisors give
// their programs 3 s.
inline constexpr std::chrono::milliseconds kLastWords{500};
inline constexpr std::chrono::milliseconds kBeforeTerminatingMpirun{4000};
inline constexpr std::chrono::milliseconds kBeforeKillingMpirun{2500};
// This passes from the end of a supervisor that has not reported to the conclusion that it never
// will.
inline constexpr std::chrono::milliseconds kReportDelay{1000};
// What is left of the 10 s once mpirun is gone.
inline constexpr std::chrono::milliseconds kAwaitOrphans{1000};
inline constexpr std::chrono::milliseconds kKillOrphans{1500};
// The longest between two looks of the launcher: of a job that is at work, and of one that ends, or
// may have to.
inline constexpr std::chrono::milliseconds kLook{500};
inline constexpr std::chrono::milliseconds kLookOften{100};

// Whether a supervisor that is gone has reported. What it has said may be under way: on a machine
// that is busy with other things whoever passes it on waits for a core as long as the launcher
// does. So that of the time between two looks no more counts than there is when the launcher gets
// to run.
class MissingReport {
 public:
  // A look at `now`: whether a report is missing. True when it has been for too long.
  bool next(Clock::time_point now, bool missing);
  bool waits() const { return last_.has_value(); }

 private:
  std::optional<Clock::time_point> last_;  // look, while it is missing
  Clock::duration waited_{};
};

class Ending {
 public:
  enum class Phase {
    running,       // also while ranks that were told to stop finish by themselves
    last_words,    // the end is decided on; ranks that have failed as well still report it
    ranks_asked,   // the ranks have been asked to end
    mpirun_asked,  // and mpirun, by SIGTERM
    mpirun_killed,
    given_up,  // it hangs in the kernel, say
  };
  // What has come to be done.
  enum class Step { none, end_ranks, ask_mpirun, kill_mpirun };
  // What is seen of a job that runs.
  struct Seen {
    bool failed = false;     // a rank or its supervisor has
    bool leftovers = false;  // all ranks have ended, and processes that they have left have not
  };

  // `patience`: with what outlives its SIGKILL.
  explicit Ending(std::chrono::milliseconds patience) : patience_(patience) {}

  Phase phase() const { return phase_; }
  bool running() const { return phase_ == Phase::running; }
  // Whether mpirun was told to end for what ranks that had ended left behind.
  bool ranks_ended() const { return ranks_ended_; }

  // The job was told to end, for the first time: its ranks may go on for so long.
  void told(Clock::time_point now, Clock::duration grace);
  // Is called when it is told again: there is no more patience with the ranks.
  Step told_again(Clock::time_point now);
  // Gives the next step. To be called again and again; `seen` counts while the job runs.
  Step next(Clock::time_point now, const Seen& seen);

 private:
  void decide(Clock::time_point now, std::chrono::milliseconds last_words);
  Step ask_mpirun(Clock::time_point now);

  const std::chrono::milliseconds patience_;
  Phase phase_ = Phase::running;
  Clock::time_point next_at_{};  // unless `running`, or at the last one
  std::optional<Clock::time_point> grace_until_;
  std::optional<Clock::time_point> left_since_;
  bool ranks_ended_ = false;
};

}  // namespace convoy::cli
