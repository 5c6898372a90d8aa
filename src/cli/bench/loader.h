// `convoy bench loader`.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_loader_command(CLI::App& bench);

}  // namespace convoy::cli
