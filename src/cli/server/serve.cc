// convoy serve: a server process of a job.
#include <csignal>
#include <cstdlib>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/server/stop_signals.h"
#include "cli/server/tls_options.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "server/host/memory.h"
#include "server/host/server.h"

namespace convoy::cli {
namespace {

struct ServeArguments {
  server::host::ServerSettings settings;
  TlsOptions tls;
};

constexpr const char* kServeDescription =
    "Hold shards of a job's parameters and serve them\n"
    "Which shards, the job's plan says, which the coordinator has. Started again with the same "
    "folder it\ngoes on with what is in it; SIGTERM ends it in order.";

int run_serve(ServeArguments arguments) {
  StopSignals signals;  // before there are threads
  server::host::keep_freed_memory();
  server::host::ServerSettings& settings = arguments.settings;
  settings.log = Log("server " + std::to_string(settings.number));
  if (const auto tls = tls_of(arguments.tls)) {
    settings.tls = server::transport::TlsFiles{tls->authority, tls->certificate, tls->key};
    // Rather than that others say it alone.
    const std::string other = server::transport::check_shown(*settings.tls);
    if (!other.empty()) settings.log.warning(other);
  }
  // It has said why; what it would do on its way out could do harm.
  settings.fatal = [](const std::string&) { std::_Exit(kExitFailure); };
  settings.give_up = [&] { return signals.came(); };
  std::unique_ptr<server::host::Server> server;
  try {
    server = std::make_unique<server::host::Server>(settings);
  } catch (const Failure&) {
    if (signals.came()) return 0;  // nothing had begun
    throw;
  }
  signals.wait();
  settings.log.info("ending");
  server->close();
  settings.log.info("ended in order");
  return 0;
}

}  // namespace

void add_serve_command(CLI::App& app, Outcome& outcome) {
  const auto arguments = std::make_shared<ServeArguments>();
  auto& settings = arguments->settings;
  CLI::App* command = app.add_subcommand("serve", kServeDescription);
  command->add_option("coordinator", settings.coordinator, "Where the job's coordinator listens")
      ->type_name("HOST:PORT")
      ->required();
  command->add_option("--server", settings.number, "Which one of the job's servers this is, from 1")
      ->type_name("N")
      ->check(positive_integer())
      ->required();
  command
      ->add_option("--data", settings.data, "Where its log and snapshots are; of no other server")
      ->type_name("DIR")
      ->required()
      ->check(writes_folder(kServerFolder));
  command
      ->add_option("--listen", settings.listen,
                   "Where clients find it; port 0: any. Beyond this host only with certificates")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      ->add_option("--advertise", settings.advertise,
                   "What others are to call it, if that is another address")
      ->type_name("HOST:PORT");
  command->add_flag("!--no-shared-memory", settings.shared_memory,
                    "Use TCP also with processes on this host");
  add_tls_options(*command, arguments->tls);
  command->callback([arguments, &outcome] { outcome.exit_status = run_serve(*arguments); });
}

}  // namespace convoy::cli
