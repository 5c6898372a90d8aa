// The times by phase of all ranks, gathered now and then.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/comm/communicator.h"
#include "train/logging/phases.h"

namespace convoy::train {

// These are sums over the updates after the previous gathering.
struct GatheredTimes {
  std::int64_t step = 0;   // the last of them
  std::int64_t steps = 0;  // how many
  std::vector<PhaseSeconds> ranks;
  double cost_s = 0;  // what this rank spent on gathering
};

// One small allreduce every so many updates, which is under way during the next one; no message
// for the others. Every rank calls the same in the same order.
class RankTimes {
 public:
  // `every` > 0. Collective.
  RankTimes(const comm::Communicator& all, std::int64_t every);

  // After update `step`. What was gathered after an earlier one, when it is there.
  std::optional<GatheredTimes> add(std::int64_t step, const PhaseSeconds& seconds);
  // After the last one: what is under way, and then what has not been gathered; nothing when all
  // has been.
  std::optional<GatheredTimes> finish();

 private:
  void start();
  std::optional<GatheredTimes> take();

  comm::Communicator communicator_;
  std::int64_t every_;
  std::int64_t step_ = 0;
  std::int64_t steps_ = 0;
  PhaseSeconds sums_{};
  GatheredTimes sent_;                // while it is under way
  std::vector<double> sent_seconds_;  // of all ranks, each in its own place
  comm::Operation gathering_;
};

}  // namespace convoy::train
