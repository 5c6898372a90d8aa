// convoy bench downpour: the methods of Dean et al. 2012, figures 4 and 5, on one recipe.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace convoy::cli {

void add_downpour_command(CLI::App& bench, Outcome& outcome);

}  // namespace convoy::cli
