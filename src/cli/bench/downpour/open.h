// Opens the recipe of a comparison, with its plugins.
#pragma once

#include "cli/bench/downpour/comparison.h"

namespace convoy::cli {

// Throws UsageError as make_comparison() does, and for recipes that can't be read.
Comparison open_comparison(const ComparisonWords& words);

}  // namespace convoy::cli
