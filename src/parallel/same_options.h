// What ranks have to agree on before they reduce gradients together.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/parallel/gradient_reducer.h"

namespace convoy::parallel {

// Throws UsageError on every rank, naming the first difference of each differing rank, unless all
// ranks give as rank 0 does the options that decide what they send each other. `more` are others
// that do, by name and value. Collective.
void check_same_options(const comm::Communicator& communicator, const ReducerOptions& options,
                        const std::vector<std::pair<std::string, std::string>>& more = {});

}  // namespace convoy::parallel
