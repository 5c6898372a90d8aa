#include "cli/training/downpour.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/launch/again.h"
#include "cli/launch/hosts.h"
#include "cli/server/downpour_job.h"
#include "cli/training/new_checkpoints.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/server_job.h"
#include "convoy/train/trainer.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_files.h"
#include "train/checkpoint/run_lock.h"
#include "train/logging/environment.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

// Of the terminal on standard output; 0 if there is none.
int columns() {
  winsize size{};
  const bool terminal =
      isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return terminal && environment("TERM") != "dumb" ? size.ws_col : 0;
}

std::vector<std::string> hosts_of(const RankOptions& options, const std::string& strategy,
                                  const train::ServerJobRecipe& recipe) {
  std::vector<std::string> hosts;
  for (const HostSlots& host : read_hosts(options.hosts, options.hostfile)) {
    if (host.slots != 0)
      throw UsageError("--hosts " + host.name + ":" + std::to_string(host.slots) +
                       ": with strategy \"" + strategy +
                       "\" the recipe says how many replicas there are; "
                       "name hosts alone");
    hosts.push_back(host.name);
  }
  return hosts.empty() ? recipe.hosts : hosts;
}

// Each process has its share of the cores; other hosts are taken for ones like this.
int threads_of(const train::Recipe& recipe, const DownpourSetup& setup) {
  if (recipe.threads > 0) return static_cast<int>(recipe.threads);
  const int hosts = std::max<int>(1, static_cast<int>(setup.hosts.size()));
  const int processes = (setup.replicas + hosts - 1) / hosts * setup.partitions;
  return std::max(1, static_cast<int>(usable_cores().size()) / processes);
}

DownpourSetup setup_of(const train::Recipe& recipe, const TrainArguments& arguments,
                       const DownpourArguments& own) {
  const train::ServerJobRecipe job = train::server_job_of(recipe);
  const server::JobPlan plan = train::server_job_plan(recipe);
  DownpourSetup setup;
  setup.program = fs::read_symlink("/proc/self/exe").string();
  setup.servers = static_cast<int>(plan.servers);
  setup.replicas = static_cast<int>(job.replicas);
  setup.partitions = static_cast<int>(std::max<std::int64_t>(1, recipe.grid.partitions));
  setup.restarts = static_cast<int>(job.restarts);
  setup.hosts = hosts_of(arguments.ranks, recipe.strategy, job);
  setup.etcd = job.etcd;
  if (!own.certificates.empty()) setup.certificates = fs::absolute(own.certificates).string();
  setup.columns = columns();
  // What is shown is to be short, and a line.
  const std::string command = train::command_line();
  if (!own.dry_run && command.find('\n') == std::string::npos) setup.command = command;
  setup.threads = threads_of(recipe, setup);
  setup.gpus = recipe.device != "cpu";
  return setup;
}

std::vector<std::string> changed_keys(const std::string& mine, const std::string& theirs) {
  std::vector<std::string> keys;
  for (const train::RecipeChange& change : train::recipe_changes(mine, theirs)) {
    // The record, whose recipe is `mine`, may be of an earlier version.
    if (train::is_of_an_earlier_version({change.key, change.theirs, change.mine})) continue;
    keys.push_back(change.key);
  }
  return keys;
}

// The last one first, whose loss ends the run.
std::vector<std::string> files_of(const train::RunFiles& found, const std::string& folder) {
  std::vector<std::string> paths(found.files.rbegin(), found.files.rend());
  paths.insert(paths.end(), found.checkpoints.begin(), found.checkpoints.end());
  paths.insert(paths.end(), found.leftovers.begin(), found.leftovers.end());
  paths.push_back(folder + "/recipe.toml");
  return paths;
}

// For a coordinator that reads the recipe by itself.
std::vector<std::string> recipe_words(const TrainArguments& arguments, const std::string& folder) {
  std::vector<std::string> words{fs::absolute(arguments.recipe).lexically_normal().string()};
  for (const std::string& one : arguments.overrides) {
    if (!one.starts_with("output.folder=")) words.insert(words.end(), {"--set", one});
  }
  words.insert(words.end(), {"--set", "output.folder=" + folder});
  return words;
}

void check_options(const std::string& strategy, const TrainArguments& arguments) {
  const std::string with = "strategy \"" + strategy + "\"";
  if (is_a_rank())
    throw UsageError(with +
                     " is no MPI job: start convoy train once, without mpirun or srun "
                     "(docs/downpour-operations.md)");
  if (arguments.ranks.ranks > 0)
    throw UsageError("-n: with " + with + " say --set " + strategy +
                     ".replicas=" + std::to_string(arguments.ranks.ranks));
  if (!arguments.ranks.logs.empty() || !arguments.ranks.bind.empty() ||
      !arguments.ranks.timeout.empty())
    throw UsageError("--logs, --bind and --timeout are not for " + with);
}

}  // namespace

void add_downpour_options(CLI::App& command, DownpourArguments& own) {
  command
      .add_option("--certs", own.certificates,
                  "With strategy \"downpour\" or \"sandblaster\" on several hosts: certificates of "
                  "`convoy certs`")
      ->type_name("DIR");
  command
      .add_option(
          "--server-data", own.data,
          "With strategy \"downpour\" or \"sandblaster\": where coordinator and servers keep "
          "their data "
          "(server/ in the run folder)")
      ->type_name("DIR")
      ->check(writes_folder(kServersFolder));
  command.add_flag("--dry-run", own.dry_run,
                   "With strategy \"downpour\" or \"sandblaster\": print the commands of all "
                   "processes, and do "
                   "nothing else");
}

int train_downpour(train::Recipe recipe, const TrainArguments& arguments,
                   const DownpourArguments& own) {
  check_options(recipe.strategy, arguments);
  const std::string folder = train::run_folder_of(recipe);
  recipe.output.folder = folder;
  if (const std::string who = train::run_at_work(folder); !who.empty() && !own.dry_run)
    throw UsageError(folder + " is in use by another run: " + who);
  DownpourOrder order;
  order.name = recipe.name;
  order.data = own.data.empty() ? folder + "/server" : fs::absolute(own.data).string();
  order.recipe = train::print_recipe(recipe, false);
  order.resume = arguments.resume;
  order.overwrite = arguments.overwrite;
  order.dry_run = own.dry_run;
  order.recipe_words = recipe_words(arguments, folder);
  order.grace_s = arguments.ranks.grace_s;
  order.setup = setup_of(recipe, arguments, own);
  order.changes = changed_keys;
  order.run_folder = folder;
  order.run_files = [folder] { return files_of(train::find_run_files(folder), folder); };
  if (order.resume.empty()) {
    train::check_run_folder(folder, order.overwrite);
  } else if (order.resume == "latest" || order.resume == train::kResumeAuto) {
    order.newest_checkpoint = train::CheckpointFolder(train::checkpoints_in(folder)).newest();
    order.lost_run = [folder] {
      if (train::choose_start(folder) != train::Start::begin_again) return false;
      const std::string origin = train::origin_of_lost_run(folder);
      if (!origin.empty())
        throw UsageError("--resume=auto: the run in " + folder + " went on from " + origin +
                         ", and was lost before its first checkpoint; --resume " + origin +
                         " begins it again from there");
      return true;
    };
  } else {
    order.resume = train::open_origin(order.resume, folder).path;
  }
  // With --overwrite there are none when the job begins.
  order.has_checkpoint = [added = NewCheckpoints(folder, order.overwrite)] { return added.any(); };
  return run_downpour_job(std::move(order));
}

}  // namespace convoy::cli
