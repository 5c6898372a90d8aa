// convoy-agent: started by mpirun for each rank of `convoy run`, see supervisor.h. A program of its
// own, since it needs neither LibTorch nor MPI and should start in a millisecond and take no
// memory.
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/agent/supervisor.h"
#include "convoy/base/error.h"

int main(int argc, char** argv) {
  convoy::cli::SupervisorOptions options;
  int next = 1;
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
    else
      break;
  }
  if (next < argc && std::strcmp(argv[next], "--") == 0) {
    options.command.assign(argv + next + 1, argv + argc);
  }
  if (options.token.empty() || options.command.empty()) {
    std::fputs(
        "convoy-agent: started by 'convoy run' for each rank; it is not meant to be used alone\n",
        stderr);
    return convoy::kExitUsage;
  }
  return convoy::cli::supervise(options);
}
