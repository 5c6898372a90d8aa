// The models of communication, and of contention, between the whole numbers of workers.
#pragma once

#include "convoy/plan/machine.h"

namespace convoy::plan {

// Delta(P) by the formula of its kind, for any real P > 1; 0 for none and table.
double communication_at(const Communication& communication, double workers);

// c(P) for any real P >= 1.
double contention_at(const std::vector<ContentionPoint>& contention, double workers);

}  // namespace convoy::plan
