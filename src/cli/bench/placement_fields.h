// Placements in rows of JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "convoy/plan/placement.h"

namespace convoy::cli {

// Hybrid's, in the words of a recipe: scheme, senders (of bc; else 0), passes, variable_batch,
// partitions and replicas. Of other placements there are none: an empty object.
nlohmann::ordered_json placement_fields(const plan::Placement& placement, int ranks);

}  // namespace convoy::cli
