// convoy replica and convoy evaluator in a build without the parameter server.
#include "cli/commands.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

void add_missing(CLI::App& app, const char* name) {
  CLI::App* command = app.add_subcommand(name, "Not in this build, which has no parameter server");
  command->allow_extras();
  command->callback([] {
    throw UsageError(
        "this convoy was built without the parameter server: it needs gRPC and OpenSSL "
        "(docs/install.md)");
  });
}

}  // namespace

void add_replica_command(CLI::App& app, Outcome&) { add_missing(app, "replica"); }
void add_evaluator_command(CLI::App& app, Outcome&) { add_missing(app, "evaluator"); }

}  // namespace convoy::cli
