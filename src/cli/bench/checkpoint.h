// `convoy bench checkpoint`: how long a checkpoint holds training up.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_checkpoint_command(CLI::App& bench);

}  // namespace convoy::cli
