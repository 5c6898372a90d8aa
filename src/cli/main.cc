// The convoy program: one file per subcommand, and here only what they share.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/suggest.h"
#include "cli/version.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"

namespace {

int complain(const std::string& line, int status) {
  std::fprintf(stderr, "%s\n", convoy::printable_lines(line).c_str());
  return status;
}

// Files and sockets that are opened later would get the numbers of standard streams that are
// closed, and with them what is printed.
void open_standard_streams() {
  int opened = 0;
  do opened = open("/dev/null", O_RDWR);
  while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) close(opened);
}

// Whoever is told to stop while it starts remembers it: what takes the signal is not there yet.
void hold_usr1(const std::string& command) {
  if (command != "train" && command != "run" && command != "job") return;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace convoy::cli;
  open_standard_streams();
  CLI::App app("Distributed training of deep networks on LibTorch", "convoy");
  Outcome outcome;
  // What follows "--" is another program's business.
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<std::string> rest;
  if (!arguments.empty()) hold_usr1(arguments.front());
  if (!arguments.empty() && arguments.front() == "run") {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    rest.assign(dashes, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  app.require_subcommand(1);
  app.set_version_flag(
      "--version", [] { return version_line(); }, "Print the version and what it was built on");
  add_commands(app, rest, outcome);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return complain(explain(app, error, arguments), convoy::kExitUsage);
  } catch (const std::exception& error) {
    return complain(full_name(chosen(app)) + ": " + convoy::message_of(error),
                    convoy::exit_status(error));
  }
  return outcome.exit_status;
}
