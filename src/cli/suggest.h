// Help for mistyped names.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace convoy::cli {

// One line for a command line that does not parse: what is wrong and the nearest that would be
// right.
std::string explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& arguments);

// The subcommand that the command line had reached: the innermost one that was chosen.
const CLI::App& chosen(const CLI::App& app);

// "convoy plan batch"
std::string full_name(const CLI::App& app);

// An option that `app` doesn't know: "convoy run: there is no option --thread; did you mean
// --threads?"
std::string unknown_argument(const CLI::App& app, const std::string& argument);

}  // namespace convoy::cli
