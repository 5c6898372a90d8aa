// convoy replica and convoy evaluator: the processes of a job on a parameter server that have a
// network.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "cli/checks.h"
#include "cli/launch/report.h"
#include "cli/server/tls_options.h"
#include "cli/torch_commands.h"
#include "cli/training/client_service.h"
#include "cli/training/ranks.h"
#include "cli/training/result.h"
#include "cli/training/signals.h"
#include "cli/version.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/server/batch.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/downpour.h"
#include "convoy/train/downpour_roles.h"
#include "convoy/train/sandblaster.h"
#include "convoy/train/sandblaster_roles.h"
#include "train/checkpoint/resume.h"
#include "train/rank_work.h"

namespace convoy::cli {
namespace {

struct RolesArguments {
  std::string coordinator;
  std::string name;
  TlsOptions tls;
  RankOptions ranks;
  std::string metrics;  // replica
  std::string resume;   // evaluator
  bool overwrite = false;
};

server::Wire wire_of(const std::string& name) {
  if (name == "bfloat16") return server::Wire::bf16;
  return name == "float16" ? server::Wire::f16 : server::Wire::f32;
}

// The connections of this process. How values travel is in the recipe, which the first connection
// of all brings.
class Connections {
 public:
  Connections(const RolesArguments& arguments, server::ClientRole role, const comm::World& world)
      : arguments_(arguments), role_(role), world_(world) {}

  // The recipe of the coordinator's job. Collective.
  train::Recipe recipe(train::Registry& registry) {
    plan_.recipe = train::on_rank_0(world_.communicator(), [this] {
      const auto client = connect({0, static_cast<std::uint32_t>(world_.size()), 0});
      plan_ = client->plan();
      progress_ = client->progress();
      return plan_.recipe;
    });
    train::Recipe recipe = train::recipe_of(plan_, registry);
    if (recipe.strategy == train::kDownpour) downpour_ = train::downpour_of(recipe);
    if (recipe.strategy == train::kSandblaster && role_ == server::ClientRole::evaluator) look();
    return recipe;
  }
  // As the first rank found it.
  bool has_begun() const {
    if (progress_.replicas > 0 || progress_.reported.steps > 0 || !progress_.ended.empty())
      return true;
    return portions_done_ || !is_where_it_begins();
  }
  const std::string& ended() const { return progress_.ended; }

  train::ParameterServiceFactory factory() {
    return [this](const train::ServiceMember& member) { return service_of(connect(member)); };
  }
  train::BatchServiceFactory batch_factory() {
    return [this](const train::ServiceMember& member) { return batch_service_of(connect(member)); };
  }

 private:
  // Whether as many samples are done as when the job began. Until it is described none are counted,
  // and an epoch that was over is not told from the next one.
  bool is_where_it_begins() const {
    const bool none = progress_.consumed.empty();
    if (progress_.epoch == plan_.first_epoch) return none || progress_.consumed == plan_.consumed;
    if (progress_.epoch == plan_.first_epoch + 1) return none && !plan_.consumed.empty();
    return progress_.epoch < plan_.first_epoch;
  }

  // Samples are not counted in a batch optimization.
  void look() {
    train::on_rank_0(world_.communicator(), [this]() -> std::string {
      const auto client =
          connect({0, static_cast<std::uint32_t>(world_.size()), 0}, server::ClientRole::observer);
      const server::BatchProgress progress = server::BatchClient(*client).watch();
      portions_done_ = progress.all.done > 0 || progress.last.evaluations > 0;
      return "";
    });
  }

  std::unique_ptr<server::Client> connect(const train::ServiceMember& member) const {
    return connect(member, role_);
  }
  std::unique_ptr<server::Client> connect(const train::ServiceMember& member,
                                          server::ClientRole role) const {
    server::ClientOptions options;
    options.coordinator = arguments_.coordinator;
    options.tls = tls_of(arguments_.tls);
    options.name = arguments_.name;
    if (member.members > 1) options.name += "/" + std::to_string(member.member);
    options.role = role;
    options.give_up = stop_signal_came;
    options.push = wire_of(downpour_.push_wire);
    options.fetch = wire_of(downpour_.fetch_wire);
    options.member = member.member;
    options.members = member.members;
    options.group = member.group;
    options.log = world_.log();
    return std::make_unique<server::Client>(std::move(options));
  }

  const RolesArguments& arguments_;
  server::ClientRole role_;
  const comm::World& world_;
  server::JobPlan plan_;
  server::JobProgress progress_;
  bool portions_done_ = false;
  train::DownpourRecipe downpour_;
};

std::string how_it_ended(bool stopped, const std::string& ended) {
  return stopped ? "stopped" : ended.empty() ? "done" : "the job is over (" + ended + ")";
}

void print_replica(const train::ReplicaResult& result) {
  std::printf("%s after %llu mini-batches of %llu samples; %llu pushes, %llu fetches%s\n",
              how_it_ended(result.stopped, result.ended).c_str(),
              static_cast<unsigned long long>(result.steps),
              static_cast<unsigned long long>(result.samples),
              static_cast<unsigned long long>(result.pushes),
              static_cast<unsigned long long>(result.fetches),
              result.dropped == 0
                  ? ""
                  : (", " + std::to_string(result.dropped) + " pushes were too stale").c_str());
}

void print_replica(const train::BatchReplicaResult& result) {
  std::printf(
      "%s after %llu portions in %llu evaluations; copies among them: %llu, done by others before: "
      "%llu\n",
      how_it_ended(result.stopped, result.ended).c_str(),
      static_cast<unsigned long long>(result.portions),
      static_cast<unsigned long long>(result.evaluations),
      static_cast<unsigned long long>(result.copies),
      static_cast<unsigned long long>(result.unused));
}

int run_replica(const RolesArguments& arguments) {
  become_ranks(arguments.ranks, 0, arguments.ranks.ranks);
  catch_stop_signals();
  const auto replica = [&](comm::World& world) {
    train::Registry registry;
    Connections connections(arguments, server::ClientRole::replica, world);
    const train::Recipe recipe = connections.recipe(registry);
    if (recipe.strategy == train::kSandblaster) {
      if (!arguments.metrics.empty())
        throw UsageError("--metrics is for replicas of strategy \"downpour\"");
      train::BatchReplicaOptions options;
      options.should_stop = stop_signal_came;
      const train::BatchReplicaResult result =
          train::run_batch_replica(world, registry, recipe, connections.batch_factory(), options);
      if (world.rank() == 0) print_replica(result);
    } else {
      train::ReplicaOptions options;
      options.should_stop = stop_signal_came;
      options.metrics = arguments.metrics;
      const train::ReplicaResult result =
          train::run_replica(world, registry, recipe, connections.factory(), options);
      if (world.rank() == 0) print_replica(result);
    }
    std::fflush(stdout);
    return 0;
  };
  return in_world(arguments.ranks, "replica", [&](comm::World& world) {
    try {
      return replica(world);
    } catch (const server::GaveUp& gave_up) {
      if (world.size() > 1) throw;  // the other ranks may be further
      std::printf("%s\n", gave_up.what());
      return 0;
    }
  });
}

// One that is started again goes on in its own folder, whatever it was started with first.
void go_on(const Connections& connections, const train::Recipe& recipe,
           train::TrainerOptions& options) {
  if (!connections.has_begun()) return;
  const train::CheckpointFolder checkpoints(train::checkpoints_in(recipe.output.folder));
  options.overwrite = checkpoints.newest().empty();
  options.resume = options.overwrite ? "" : "latest";
}

int run_evaluator(const RolesArguments& arguments) {
  become_ranks(arguments.ranks, 0, arguments.ranks.ranks);
  catch_stop_signals();
  const auto evaluator = [&](comm::World& world) {
    train::Registry registry;
    Connections connections(arguments, server::ClientRole::evaluator, world);
    const train::Recipe recipe = connections.recipe(registry);
    train::TrainerOptions options;
    options.resume = arguments.resume;
    options.overwrite = arguments.overwrite;
    options.progress = world.rank() == 0;
    options.version = version_line();
    options.should_stop = stop_signal_came;
    // How it goes on is up to the first rank.
    const std::string how = train::on_rank_0(world.communicator(), [&] {
      // Behind the last checkpoint: an evaluator before it has ended it, or somebody else.
      if (!connections.ended().empty()) return "e" + connections.ended();
      go_on(connections, recipe, options);
      return (options.overwrite ? "o" : "-") + options.resume;
    });
    if (how[0] == 'e') {
      if (world.rank() == 0) std::printf("the job is over: %s\n", how.c_str() + 1);
      return 0;
    }
    options.overwrite = how[0] == 'o';
    options.resume = how.substr(1);
    const train::RunResult result =
        recipe.strategy == train::kSandblaster
            ? train::run_batch_evaluator(world, registry, recipe, connections.batch_factory(),
                                         options)
            : train::run_evaluator(world, registry, recipe, connections.factory(), options);
    if (world.rank() == 0) print_result(result);
    return result.stopped ? kExitRequeue : 0;
  };
  return in_world(arguments.ranks, "evaluator", [&](comm::World& world) {
    try {
      return evaluator(world);
    } catch (const server::GaveUp& gave_up) {  // nobody was there who has something to save
      if (world.size() > 1) throw;
      std::printf("%s\n", gave_up.what());
      return kExitRequeue;
    }
  });
}

void add_common(CLI::App& command, RolesArguments& arguments, const char* name) {
  arguments.name = name;
  command.add_option("coordinator", arguments.coordinator, "Where the job's coordinator listens")
      ->type_name("HOST:PORT")
      ->required();
  command.add_option("--name", arguments.name, "For people, in the job's status")
      ->type_name("NAME");
  add_tls_options(command, arguments.tls);
  add_rank_options(command, arguments.ranks);
}

}  // namespace

void fill_replica_command(CLI::App& command, Outcome& outcome) {
  auto arguments = std::make_shared<RolesArguments>();
  arguments->ranks.grace_s = kUsualGrace;
  add_common(command, *arguments, "replica");
  command
      .add_option("--metrics", arguments->metrics,
                  "Write losses and times of mini-batches there (strategy \"downpour\")")
      ->type_name("FILE")
      ->check(writes_file(kMetricsFile));
  command.callback([arguments, &outcome] { outcome.exit_status = run_replica(*arguments); });
}

void fill_evaluator_command(CLI::App& command, Outcome& outcome) {
  auto arguments = std::make_shared<RolesArguments>();
  arguments->ranks.grace_s = kUsualGrace;
  add_common(command, *arguments, "evaluator");
  command
      .add_option("--resume", arguments->resume,
                  "Begin with the newest checkpoint of the run, or with this one")
      ->type_name("[CHECKPOINT]")
      ->expected(0, 1)
      ->default_str("latest");
  command
      .add_flag("--overwrite", arguments->overwrite,
                "Remove the files that an earlier run left in the run folder, and no others")
      ->excludes("--resume");
  command.callback([arguments, &command, &outcome] {
    if (command.count("--resume") > 0 && arguments->resume.empty()) arguments->resume = "latest";
    outcome.exit_status = run_evaluator(*arguments);
  });
}

}  // namespace convoy::cli
