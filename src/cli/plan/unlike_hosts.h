// Whether the hosts of a plan are like the first of them, on which updates of one worker are timed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/plan/sweep.h"

namespace convoy::cli {

// Times an update of so many samples on each other host that the workers of the sweep have, all at
// a time, unless it is among the points already; they are kept as times of other machines. A host
// where that fails is told of, and left out.
void time_other_hosts(const Planned& planned, const Sweep& sweep, std::int64_t samples,
                      PlanFolder& folder, std::FILE* out);

// What is to be borne in mind where they differ by more than a tenth; empty: nothing.
std::string warning_of_hosts(const Sweep& sweep, const plan::PlanPoints& points);

}  // namespace convoy::cli
