// convoy bench server: what pushing to and fetching from parameter servers costs.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_server_command(CLI::App& bench);

}  // namespace convoy::cli
