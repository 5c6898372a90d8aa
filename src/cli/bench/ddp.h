// `convoy bench ddp`: training together, beside PyTorch's DistributedDataParallel.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_ddp_command(CLI::App& bench);

}  // namespace convoy::cli
