// convoy coordinator: the process of a job that all others ask.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "cli/server/job_data.h"
#include "cli/server/stop_signals.h"
#include "cli/server/tls_options.h"
#include "cli/torch_commands.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/train/downpour_roles.h"
#include "convoy/train/registry.h"
#include "convoy/train/sandblaster.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/etcd_store.h"
#include "server/coordinator/log_store.h"

namespace convoy::cli {
namespace {

namespace coordinator = server::coordinator;

struct CoordinatorArguments {
  std::string recipe, data, resume;
  std::vector<std::string> overrides, etcd;
  std::string etcd_prefix;
  TlsOptions tls, etcd_tls;
  coordinator::CoordinatorSettings settings;
};

std::optional<server::transport::TlsFiles> files_of(const TlsOptions& options) {
  const auto tls = tls_of(options);
  if (!tls) return std::nullopt;
  return server::transport::TlsFiles{tls->authority, tls->certificate, tls->key};
}

std::shared_ptr<coordinator::StateStore> open_store(const CoordinatorArguments& arguments,
                                                    const std::string& job) {
  if (arguments.etcd.empty()) {
    return std::make_shared<coordinator::LogStore>(arguments.data, arguments.settings.log);
  }
  coordinator::EtcdOptions options;
  options.endpoints = arguments.etcd;
  options.prefix = arguments.etcd_prefix.empty() ? "convoy/" + job + "/" : arguments.etcd_prefix;
  options.tls = files_of(arguments.etcd_tls);
  if (!options.tls) options.tls = arguments.settings.tls;
  return coordinator::open_etcd_store(std::move(options));
}

// A job that has begun doesn't need the checkpoint any more that it went on from.
train::ServerJob read_job(const CoordinatorArguments& arguments) {
  try {
    return train::read_server_job(arguments.recipe, arguments.overrides, arguments.resume);
  } catch (const UsageError&) {
    if (arguments.resume.empty()) throw;
    try {
      return train::read_server_job(arguments.recipe, arguments.overrides, "");
    } catch (const UsageError&) {
    }
    throw;
  }
}

void require_same(const CoordinatorArguments& arguments, const server::JobPlan& plan,
                  const server::JobPlan& stored, const std::string& where) {
  auto changes = train::recipe_changes(plan.recipe, stored.recipe);
  std::erase_if(changes, train::is_of_an_earlier_version);
  const bool same = std::all_of(changes.begin(), changes.end(),
                                [](const auto& change) { return may_change(change.key); });
  if (same) return;  // the coordinator serves the new one from now on
  std::string differs;
  for (const auto& change : changes) {
    if (may_change(change.key)) continue;
    differs += (differs.empty() ? "" : "; ") + change.key + " is " +
               (change.mine.empty() ? "missing" : change.mine) + ", of the job that is there " +
               (change.theirs.empty() ? "has no such key" : "it is " + change.theirs);
  }
  throw UsageError(arguments.recipe + ": the job in " + where +
                   " was begun with another recipe: " + differs + "; name its recipe, or another " +
                   (arguments.etcd.empty() ? "folder" : "prefix"));
}

// What runs the method of a batch optimization; nothing for other jobs. An iteration goes on as it
// was begun, so that it is the job's own recipe that counts.
std::optional<coordinator::BatchSettings> batch_of(const server::JobPlan& plan) {
  train::Registry registry;
  const train::Recipe recipe = train::recipe_of(plan, registry);
  if (recipe.strategy != train::kSandblaster) return std::nullopt;
  const train::SandblasterRecipe sandblaster = train::sandblaster_of(recipe);
  coordinator::BatchSettings settings;
  settings.method = train::batch_options(recipe);
  settings.iterations = train::batch_iterations(recipe);
  settings.l2 = sandblaster.l2;
  settings.ends_job = false;  // the evaluator does, with the last checkpoint
  // It has said why. Nothing is trained then, so that no evaluator may take it for the end.
  settings.mistake = [](const std::string&) { std::_Exit(kExitUsage); };
  settings.groups.largest = train::largest_group_level(recipe);
  settings.groups.backups = sandblaster.copies;
  return settings;
}

int run_coordinator(CoordinatorArguments arguments) {
  StopSignals signals;  // before there are threads
  if (arguments.data.empty() && arguments.etcd.empty()) {
    throw UsageError("say where the job is kept: --data DIR, or --etcd URL");
  }
  coordinator::CoordinatorSettings& settings = arguments.settings;
  settings.log = Log("coordinator");
  settings.tls = files_of(arguments.tls);
  if (settings.tls) {
    const std::string other = server::transport::check_shown(*settings.tls);
    if (!other.empty()) settings.log.warning(other);
  }
  // It has said why.
  settings.fatal = [](const std::string&) { std::_Exit(kExitFailure); };
  const train::ServerJob job = read_job(arguments);
  const auto store = open_store(arguments, job.plan.name);
  const auto stored = coordinator::stored_job(*store);
  if (stored) {
    require_same(arguments, job.plan, stored->plan, store->where());
  } else if (job.resume.empty() && !arguments.resume.empty()) {
    // What is wrong with the checkpoint.
    train::read_server_job(arguments.recipe, arguments.overrides, arguments.resume);
  }
  settings.plan = job.plan;
  settings.batch = batch_of(stored ? stored->plan : job.plan);
  const Log log = settings.log;
  coordinator::Coordinator process(store, std::move(settings));
  log.info("job " + process.job() + " at " + process.address() + ", kept in " + store->where() +
           (stored ? ", goes on" : ""));
  if (!process.metrics_address().empty()) {
    log.info("metrics at " + process.metrics_address() + "/metrics");
  }
  while (!signals.came() && !process.over()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  log.info(process.over() ? "the job is over" : "ending");
  process.close();
  return 0;
}

}  // namespace

void fill_coordinator_command(CLI::App& command, Outcome& outcome) {
  const auto arguments = std::make_shared<CoordinatorArguments>();
  auto& settings = arguments->settings;
  command.add_option("recipe", arguments->recipe, "The job's recipe")
      ->type_name("RECIPE")
      ->required();
  command
      .add_option("--data", arguments->data,
                  "Where it keeps what must survive it; not needed with --etcd")
      ->type_name("DIR")
      ->check(writes_folder(kServerFolder));
  command
      .add_option("--listen", settings.listen,
                  "Where everybody finds it; port 0: any. Beyond this host only with certificates")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      .add_option("--metrics", settings.metrics,
                  "Serve metrics for Prometheus there, under /metrics. Beyond this host only to "
                  "clients with certificates")
      ->type_name("HOST:PORT");
  command
      .add_option("--etcd", arguments->etcd,
                  "Keep it in etcd instead, through any of these members")
      ->type_name("URL,URL,...")
      ->delimiter(',');
  command
      .add_option("--etcd-prefix", arguments->etcd_prefix,
                  "What the job's keys begin with (convoy/NAME/ with the recipe's name)")
      ->type_name("TEXT");
  command.add_option("--etcd-ca", arguments->etcd_tls.authority,
                     "etcd's authority, if it isn't the job's (PEM)");
  command.add_option("--etcd-certificate", arguments->etcd_tls.certificate,
                     "What it shows to etcd (PEM)");
  command.add_option("--etcd-key", arguments->etcd_tls.key, "The key of that (PEM)");
  command
      .add_option("--resume", arguments->resume,
                  "A job that begins goes on from this checkpoint (\"latest\": the newest of its "
                  "run folder)")
      ->type_name("CHECKPOINT");
  command
      .add_option("--accept-loss", settings.accept_loss,
                  "Go on with this shard though a power cut may have taken its last updates")
      ->type_name("SHARD");
  add_set_option(command, arguments->overrides);
  add_tls_options(command, arguments->tls);
  command.callback([arguments, &outcome] { outcome.exit_status = run_coordinator(*arguments); });
}

}  // namespace convoy::cli
