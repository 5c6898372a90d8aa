// What a comparison prints.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cli/bench/downpour/figures.h"

namespace convoy::cli {

// "97%", "0.05"; of a metric that is not known as a number.
std::string level_text(const train::MetricInfo* metric, double level);

// Lines of cells, the first column to the left and the others to the right, under their head. Cells
// without anything get a dash.
void print_columns(const std::vector<std::string>& head,
                   const std::vector<std::vector<std::string>>& rows, std::FILE* out);

// A line for each run, and under them what stands in no column.
void print_comparison(const ComparedRuns& runs, std::FILE* out);

}  // namespace convoy::cli
