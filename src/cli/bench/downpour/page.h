// The page about a comparison: figures 4 and 5 of Dean et al. 2012 with these runs.
#pragma once

#include <string>

#include "cli/bench/downpour/figures.h"
#include "cli/bench/downpour/projection.h"

namespace convoy::cli {

// One HTML file that needs nothing else. Throws Failure where gnuplot, which draws its pictures,
// can't be started.
std::string make_comparison_page(const Comparison& comparison, const ComparedRuns& runs,
                                 const Projection& projection = {});

}  // namespace convoy::cli
