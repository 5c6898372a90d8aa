// The subcommands of `convoy plan`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace convoy::cli {

// Which mini-batch, for the user's recipe, target and machine.
void add_plan_batch_command(CLI::App& plan, Outcome& outcome);
// Which change of the machine pays.
void add_plan_machine_command(CLI::App& plan);
// Where the layers of a network should be.
void add_plan_placement_command(CLI::App& plan);
// What each of several machines has of a network that is divided over them.
void add_plan_partition_command(CLI::App& plan);
// Whether predictions are right.
void add_plan_check_command(CLI::App& plan, Outcome& outcome);
// Which batch the noise of gradients names.
void add_plan_noise_command(CLI::App& plan, Outcome& outcome);

}  // namespace convoy::cli
