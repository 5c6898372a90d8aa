// In a build without a parameter server.
#include "cli/bench/server/server.h"
#include "convoy/base/error.h"

namespace convoy::cli {

void add_server_command(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("server", "Not in this build, which has no parameter server");
  command->allow_extras();
  command->callback([] {
    throw UsageError(
        "this convoy was built without the parameter server: it needs gRPC and OpenSSL "
        "(docs/install.md)");
  });
}

}  // namespace convoy::cli
