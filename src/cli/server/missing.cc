// The commands around the parameter server in a build without one.
#include "cli/commands.h"
#include "cli/server/etcd_keys.h"
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

std::string remove_keys(const EtcdKeys&) {
  return "this convoy was built without the parameter server";
}

void add_coordinator_command(CLI::App& app, Outcome&) { add_missing(app, "coordinator"); }
void add_serve_command(CLI::App& app, Outcome&) { add_missing(app, "serve"); }
void add_replica_command(CLI::App& app, Outcome&) { add_missing(app, "replica"); }
void add_evaluator_command(CLI::App& app, Outcome&) { add_missing(app, "evaluator"); }
void add_certs_command(CLI::App& app, Outcome&) { add_missing(app, "certs"); }
void add_status_command(CLI::App& app, Outcome&) { add_missing(app, "status"); }

}  // namespace convoy::cli
