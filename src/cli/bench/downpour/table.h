// What a comparison prints.
#pragma once

#include <cstdio>
#include <string>

#include "cli/bench/downpour/figures.h"

namespace convoy::cli {

// "97%", "0.05"; of a metric that is not known as a number.
std::string level_text(const train::MetricInfo* metric, double level);

// A line for each run, and under them what stands in no column.
void print_comparison(const ComparedRuns& runs, std::FILE* out);

}  // namespace convoy::cli
