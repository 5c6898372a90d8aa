// What the fits of communication share, with contention and without.
#pragma once

#include <vector>

#include "convoy/plan/machine_fit.h"

namespace convoy::plan {

// Less than this part of an update is within what its time is unsure of; a logarithm is fitted.
inline constexpr double kToldOfUpdate = 0.01;

// The larger a worker's share of the batch is, the more of communication is hidden.
void warn_of_batches(const std::vector<CommunicationSample>& samples, CommunicationFit& fit);

}  // namespace convoy::plan
