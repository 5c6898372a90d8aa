// `convoy bench ablation`: what each part of the plain path's speed brings, on one rank.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_ablation_command(CLI::App& bench);

}  // namespace convoy::cli
