// The channels of messages (comm::Match) of this layer, in one list: two streams of one
// communicator need different ones. Those of `train` are in train/channels.h.
#pragma once

#include <cstdint>

#include "convoy/comm/types.h"

namespace convoy::parallel::channels {

// These are the messages of a GradientReducer, on its own communicator.
inline constexpr std::uint16_t kBuckets = 0;  // key: the bucket
inline constexpr comm::Match kControl{1, 0};  // what goes with the gradients of a step
inline constexpr comm::Match kNominal{1, 1};  // the largest number of samples of a rank
inline constexpr comm::Match kUsed{1, 2};     // which parameters got gradients
inline constexpr comm::Match kOrder{1, 3};    // in which order gradients come

// These are the messages of synchronized batch norms, on their own communicator; the key is the
// layer.
inline constexpr std::uint16_t kNormForward = 0, kNormBackward = 1;

}  // namespace convoy::parallel::channels
