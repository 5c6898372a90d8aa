#include "cli/program.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "cli/suggest.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

int complain(const std::string& line, int status) {
  std::fprintf(stderr, "%s\n", line.c_str());
  return status;
}

}  // namespace

int run_command_line(CLI::App& app, int argc, char** argv, const AddCommands& add_commands) {
  Outcome outcome;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<std::string> rest;
  if (!arguments.empty() && arguments.front() == "run") {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    rest.assign(dashes, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  app.require_subcommand(1);
  add_commands(app, rest, outcome);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return complain(explain(app, error, arguments), kExitUsage);
  } catch (const std::exception& error) {
    return complain(full_name(chosen(app)) + ": " + message_of(error), exit_status(error));
  }
  return outcome.exit_status;
}

}  // namespace convoy::cli
