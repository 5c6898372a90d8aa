// Rules of allreduce from measurements.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/allreduce_measure.h"

namespace convoy::cli {

// Measures at these ascending sizes what `world` can use, prints each size's choice on rank 0, and
// writes rules for this number of ranks and hosts to `file` there, whole or not at all. What
// `settings` says of candidates is not used. Collective.
void tune_allreduce(const comm::World& world, AllreduceSettings settings,
                    const std::vector<std::size_t>& sizes, const std::string& file);

// One size's result, and the rules that say the same: the choice that a size has holds for all
// sizes above the one before it, the last one's for all above.
struct TunedSize {
  std::size_t bytes = 0;
  std::string choice;
};
std::string rules_of(const std::vector<TunedSize>& sizes, int ranks, int hosts);

}  // namespace convoy::cli
