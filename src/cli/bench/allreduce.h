// `convoy bench allreduce`: the algorithms of allreduce, against MPI's own in the same run.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy::cli {

void add_allreduce_command(CLI::App& bench);

}  // namespace convoy::cli
