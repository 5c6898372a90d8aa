// Finding a rank that holds the others up. Torch-free.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "train/logging/phases.h"

namespace convoy::train {

struct SlowRank {
  int rank = 0;
  std::size_t phase = 0;    // the one that is longer by most
  std::int64_t steps = 0;   // that were looked at
  double own_s = 0;         // per step, without waiting for others
  double others_s = 0;      // the same: the median of the other ranks
  double phase_more_s = 0;  // per step: what the phase takes more than the others' median
};

// Looks at the last 4 gatherings of times by rank (at least 3). In a synchronous run all ranks'
// steps are as long as the slowest's: it is the one whose own time is long and that waits less than
// the others. A rank is slow when
//  - its own time is more than a quarter longer than the median of the others';
//  - the difference is more than 5 times its standard error, as the others' own times scatter from
//    gathering to gathering apart from what all have in common (on a busy machine all do);
//  - it was an eighth above that median in all but one of the gatherings: no single hiccup counts;
//  - its exposed communication is less than the median of the others'
//  - and it takes at least half a millisecond more for a step.
// What comes first in a run is not looked at: memory is new then.
class SlowRankWatch {
 public:
  // The times of all ranks over so many steps. The rank that is found slow, if it was not before:
  // one that stays slow is named once, and again when it has been as fast as the others for 4
  // gatherings in between; but each time after twice as many gatherings as before, at least 10. One
  // that is slow again before is named then, if it still is.
  std::optional<SlowRank> add(std::int64_t steps, const std::vector<PhaseSeconds>& ranks);

 private:
  struct Gathering {
    std::int64_t steps = 0;
    std::vector<PhaseSeconds> ranks;
  };
  std::optional<SlowRank> find() const;
  bool is_slow(std::size_t rank, const std::vector<PhaseSeconds>& totals) const;
  void follow_noise();
  double noise_without(std::size_t rank) const;

  std::deque<Gathering> last_;
  std::vector<double> variances_;  // of each rank's own time, relative to it
  int seen_ = 0;                   // changes that went into them
  bool begun_ = false;
  struct Quiet {
    std::int64_t until = 0;       // gatherings
    std::int64_t gatherings = 0;  // how long
  };
  std::int64_t gatherings_ = 0;
  std::vector<Quiet> quiet_;  // of each rank
  int named_ = -1;
  int calm_ = 0;  // gatherings since it was slow
};

// "rank 2 on host node7 is slower than the others: ..."
std::string text_of(const SlowRank& slow, const std::string& host);

}  // namespace convoy::train
