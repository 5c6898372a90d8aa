// `convoy bench operators`: where the time of a training step goes, operator by operator, against
// what this machine can do at most.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_operators_command(CLI::App& bench);

}  // namespace convoy::cli
