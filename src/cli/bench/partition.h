// `convoy bench partition`: what dividing a network over more and more ranks brings (figure 3 of
// Dean et al. 2012).
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_partition_command(CLI::App& bench);

}  // namespace convoy::cli
