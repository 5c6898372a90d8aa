// `convoy bench shuffle`: how fast records in memory change places among the ranks.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_shuffle_command(CLI::App& bench);

}  // namespace convoy::cli
