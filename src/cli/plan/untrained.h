// Whether a plan's targets say anything: networks that have learnt nothing may be there already.
#pragma once

#include <cstdint>
#include <cstdio>

#include "cli/plan/deadline.h"
#include "cli/plan/folder.h"
#include "cli/plan/place.h"
#include "cli/plan/planned.h"

namespace convoy::cli {

// Evaluates the network as it is before training, and tells `out`. Throws UsageError for levels
// that it meets. Where the deadline comes first nothing is known. Trains an update of `batch` that
// changes nothing: throws as time_updates() does where the recipe can't be trained at all.
void check_untrained(const Planned& planned, PlanFolder& folder, std::int64_t batch,
                     const Place& place, const Deadline& deadline, std::FILE* out);

}  // namespace convoy::cli
