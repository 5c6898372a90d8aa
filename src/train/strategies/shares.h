// Whether batches can be shared out so that each rank can use its part.
#pragma once

#include <cstddef>

#include "convoy/train/strategy.h"

namespace convoy::train {

// Throws UsageError unless every rank gets a sample of every micro-batch: each has to take part in
// the statistics of every layer.
void check_synchronized_shares(const TrainerContext& context);

// Throws UsageError when a batch comes up that leaves a rank with samples, but with fewer than
// `least`.
void check_least_share(const TrainerContext& context, std::size_t least);

}  // namespace convoy::train
