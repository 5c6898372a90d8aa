// The channels of messages (comm::Match) among the ranks of a training, in one list: two streams of
// one communicator need different ones. What is not here has a communicator of its own, or takes
// turns with everything else on channel 0. Those of `parallel` are in parallel/channels.h.
#pragma once

#include <cstdint>

#include "convoy/comm/types.h"

namespace convoy::train::channels {

// These are messages on the communicator of a strategy.
inline constexpr comm::Match kStepSums{1, 0};  // of all strategies: Tally
inline constexpr comm::Match kStops{1, 1};
inline constexpr comm::Match kNoise{2, 0};   // of sync: the gradients' noise
inline constexpr comm::Match kShares{2, 0};  // of hybrid and partitioned: what each rank has

// These are messages on the communicator of the partitions of a replica. Hybrid's Exchange has the
// channels of its kinds, from 0.
inline constexpr comm::Match kInferred{40, 0};       // samples of each rank in an inference
inline constexpr comm::Match kSampleCounts{40, 1};   // in a step
inline constexpr comm::Match kSampleNumbers{40, 2};  // and which they are
inline constexpr comm::Match kDividedLoss{40, 3};
inline constexpr comm::Match kRowWeights{40, 4};
inline constexpr std::uint16_t kFetchForward = 44, kFetchBackward = 45;  // key: the way

// These are messages on the communicator of measurements of links.
inline constexpr comm::Match kMeasuredSum{50, 0}, kMeasuredExchange{50, 1}, kMeasured{50, 2};

}  // namespace convoy::train::channels
