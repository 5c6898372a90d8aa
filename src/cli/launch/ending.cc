#include "cli/launch/ending.h"

#include <algorithm>
#include <utility>

namespace convoy::cli {

bool MissingReport::next(Clock::time_point now, bool missing) {
  if (!missing) {
    last_.reset();
    waited_ = {};
    return false;
  }
  const Clock::time_point before = std::exchange(last_, now).value_or(now);
  waited_ += std::min<Clock::duration>(now - before, kLookOften);
  return waited_ >= kReportDelay;
}

void Ending::told(Clock::time_point now, Clock::duration grace) {
  if (phase_ != Phase::running) return;
  if (grace > Clock::duration::zero()) {
    grace_until_ = now + grace;
  } else {
    decide(now, std::chrono::milliseconds(0));
  }
}

Ending::Step Ending::told_again(Clock::time_point now) {
  return phase_ < Phase::mpirun_asked ? ask_mpirun(now) : Step::none;
}

void Ending::decide(Clock::time_point now, std::chrono::milliseconds last_words) {
  phase_ = Phase::last_words;
  next_at_ = now + last_words;
}

Ending::Step Ending::ask_mpirun(Clock::time_point now) {
  phase_ = Phase::mpirun_asked;
  next_at_ = now + kBeforeKillingMpirun;
  return Step::ask_mpirun;
}

Ending::Step Ending::next(Clock::time_point now, const Seen& seen) {
  switch (phase_) {
    case Phase::running:
      if (seen.failed) {
        decide(now, kLastWords);
      } else if (grace_until_ && now >= *grace_until_) {
        decide(now, std::chrono::milliseconds(0));
      } else if (!seen.leftovers) {
        left_since_.reset();
      } else if (!left_since_) {
        left_since_ = now;
      } else if (now - *left_since_ >= patience_) {
        ranks_ended_ = true;
        return ask_mpirun(now);
      }
      return Step::none;
    case Phase::last_words:
      if (now < next_at_) return Step::none;
      phase_ = Phase::ranks_asked;
      next_at_ += kBeforeTerminatingMpirun;
      return Step::end_ranks;
    case Phase::ranks_asked:
      return now < next_at_ ? Step::none : ask_mpirun(now);
    case Phase::mpirun_asked:
      if (now < next_at_) return Step::none;
      phase_ = Phase::mpirun_killed;
      next_at_ += patience_;
      return Step::kill_mpirun;
    case Phase::mpirun_killed:
      if (now >= next_at_) phase_ = Phase::given_up;
      return Step::none;
    case Phase::given_up:
      return Step::none;
  }
  return Step::none;
}

}  // namespace convoy::cli
