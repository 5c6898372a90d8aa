// convoy-agent: started for each rank of `convoy run` and each role of `convoy job`, see
// supervisor.h, and once for the folder of a job, see keeper.h. A program of its own, since it
// needs neither LibTorch nor MPI and should start in a millisecond and take no memory.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/agent/keeper.h"
#include "cli/agent/supervisor.h"
#include "convoy/base/error.h"

int main(int argc, char** argv) {
  convoy::cli::SupervisorOptions options;
  int next = 1;
  if (argc == 3 && std::strcmp(argv[1], "--make-folder") == 0)
    return convoy::cli::keep_folder(argv[2], true);
  if (argc == 3 && std::strcmp(argv[1], "--keep-folder") == 0)
    return convoy::cli::keep_folder(argv[2], false);
  const auto role = [&]() -> convoy::cli::RoleOptions& {
    return options.role ? *options.role : options.role.emplace();
  };
  const auto value = [&]() -> std::string { return next + 1 < argc ? argv[++next] : ""; };
  for (; next < argc && std::strcmp(argv[next], "--") != 0; ++next) {
    const std::string option = argv[next];
    if (option == "--token")
      options.token = value();
    else if (option == "--threads")
      options.threads = value();
    else if (option == "--bind")
      options.bind = value() != "none";
    else if (option == "--logs")
      options.logs = value();
    else if (option == "--label")
      options.label = true;
    else if (option == "--role-folder")
      role().folder = value();
    else if (option == "--role-grace-ms")
      role().grace = std::chrono::milliseconds(std::atoll(value().c_str()));
    else if (option == "--role-variable")
      role().variables.push_back(value());
    else
      break;
  }
  if (next < argc && std::strcmp(argv[next], "--") == 0) {
    options.command.assign(argv + next + 1, argv + argc);
  }
  if (options.token.empty() || options.command.empty()) {
    std::fputs(
        "convoy-agent: started by 'convoy run' and 'convoy job'; it is not meant to be used "
        "alone\n",
        stderr);
    return convoy::kExitUsage;
  }
  return convoy::cli::supervise(options);
}
