// What a program of subcommands does with its command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace convoy::cli {

// Adds the subcommands; `rest` is what follows the first "--" of a `run`, which is another
// program's business.
using AddCommands =
    std::function<void(CLI::App& app, const std::vector<std::string>& rest, Outcome& outcome)>;

// Does what the command line says and returns the exit status; what is wrong is said in one line.
int run_command_line(CLI::App& app, int argc, char** argv, const AddCommands& add_commands);

}  // namespace convoy::cli
