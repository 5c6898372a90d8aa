// What all ranks tell each other in every step besides gradients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "convoy/base/clock.h"
#include "convoy/comm/communicator.h"
#include "convoy/train/strategy.h"

namespace convoy::train {

// Adds up over all ranks what a step reports, while backward runs. One thread at a time.
class Tally {
 public:
  // This is what this rank has in one step.
  struct Share {
    double loss = 0;  // times the weight
    double weight = 0;
    std::size_t samples = 0;
    std::uint64_t skipped = 0;  // so far
    std::uint32_t requests = 0;
  };

  Tally() = default;
  // Refers to a communicator of the strategy's own.
  explicit Tally(const comm::Communicator& communicator) : communicator_(communicator) {}

  void start(const Share& share);
  // What all ranks have said. Waiting for it is communication.
  void finish(StepReport& report);
  // Whether updates take so long that one should not be begun before all ranks have said whether
  // one of them was told to stop. The same on all.
  bool long_updates() const { return long_updates_; }
  // Whether any rank was, since the last update. Collective.
  bool told_to_stop(std::uint32_t requests) const;

 private:
  enum { kLoss, kWeight, kSamples, kSkipped, kSeconds, kStopRequests, kCheckpointRequests, kSize };

  comm::Communicator communicator_;
  std::array<double, kSize> sums_{};
  comm::Operation sum_;
  Clock::time_point last_ = Clock::now();
  bool long_updates_ = true;  // until one shows that they are not
};

}  // namespace convoy::train
