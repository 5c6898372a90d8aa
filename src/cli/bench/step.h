// `convoy bench step`: what training together costs, against copies that train alone.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_step_command(CLI::App& bench);

}  // namespace convoy::cli
