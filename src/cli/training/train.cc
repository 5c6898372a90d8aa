// convoy train: trains what a recipe says.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/toml_text.h"
#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/launch/hosts.h"
#include "cli/launch/report.h"
#include "cli/output_file.h"
#include "cli/plan/plan_file.h"
#include "cli/plan/plan_recipe.h"
#include "cli/torch_commands.h"
#include "cli/training/downpour.h"
#include "cli/training/ranks.h"
#include "cli/training/result.h"
#include "cli/training/signals.h"
#include "cli/training/trained_options.h"
#include "cli/version.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/schedule.h"
#include "convoy/train/server_job.h"
#include "convoy/train/trainer.h"
#include "train/logging/environment.h"

namespace convoy::cli {
namespace {

constexpr const char* kStoppedInSetUp =
    "convoy train: told to stop before the first update: nothing had to be saved, and the same "
    "command starts it again\n";

struct TrainCommandArguments {
  // Of a run that may have to begin, all files have to be there.
  train::Files files() const {
    return resume.empty() || resume == train::kResumeAuto ? train::Files::must_exist
                                                          : train::Files::of_a_resumed_run;
  }

  std::string recipe;
  std::vector<std::string> overrides;
  std::string resume;
  bool overwrite = false;
  DownpourArguments downpour;
  bool print_recipe = false;
  std::string timeline;
  std::string plan;
  RankOptions ranks;
};

// A recipe with the defaults of everything, for --print-recipe without a file.
train::Recipe plain_recipe(const train::Registry& registry) {
  train::Recipe recipe;
  recipe.name = "mine";
  recipe.model.name = "resnet18";
  recipe.data.reader = "image_folder";
  recipe.data.size = 224;
  recipe.data.has_validation = true;
  const train::Vocabulary& words = registry.vocabulary();
  const auto& keys = words.readers.find(recipe.data.reader)->second;
  recipe.model.options = train::Options(words.models.find(recipe.model.name)->second);
  recipe.data.train = train::Options(keys);
  recipe.data.validation = train::Options(keys);
  recipe.task.options = train::Options(words.tasks.find(recipe.task.name)->second);
  recipe.strategy_options = train::Options(words.strategies.find(recipe.strategy)->second);
  recipe.optimizer = train::with_defaults(recipe.optimizer);
  recipe.schedule = train::with_defaults(recipe.schedule);
  recipe.training.batch = 128;
  recipe.training.epochs = 10;
  return recipe;
}

std::optional<PlanFile> read_plan(const TrainCommandArguments& arguments) {
  if (arguments.plan.empty()) return std::nullopt;
  for (const std::string& override : arguments.overrides) {
    for (const char* key : {"training.batch=", "optimizer.lr=", "training=", "optimizer="}) {
      if (override.starts_with(key))
        throw UsageError("--set " + override +
                         " and --plan contradict each other; give one of them");
    }
  }
  return read_plan_file(arguments.plan);
}

// A plan's answers are those of the training that it measured. Throws UsageError for another one.
void check_plan_is_of(const train::Recipe& recipe, const TrainCommandArguments& arguments,
                      const PlanFile& plan) {
  if (recipe.name != plan.recipe) {
    throw UsageError(arguments.plan + " is a plan of the recipe '" + plan.recipe + "', not of '" +
                     recipe.name + "'");
  }
  if (!plan.measured) return;
  const std::string other =
      difference_from_plan(compared_part(recipe), plan.measured->recipe).training;
  if (other.empty()) return;
  std::string with;
  for (const std::string& one : plan.measured->overrides)
    with += " --set " + train::shell_word(one);
  throw UsageError(arguments.plan + " was measured with another recipe: " + other +
                   (with.empty() ? "" : " (its overrides were" + with + ")") +
                   "; plan anew, or give training.batch and optimizer.lr by --set in the place of "
                   "--plan");
}

// What does not make another training of it, but other times, or another law.
void warn_of_other_circumstances(const train::Recipe& recipe, const train::Registry& registry,
                                 const TrainCommandArguments& arguments, const PlanFile& plan) {
  const auto warn = [&arguments](const std::string& text) {
    std::fprintf(stderr, "convoy train: warning: %s: %s\n", arguments.plan.c_str(), text.c_str());
  };
  if (!plan.measured) {
    warn("it does not say what it was measured with: nothing of it is compared with the recipe");
    return;
  }
  const PlanFile::MeasuredWith& with = *plan.measured;
  if (with.threads > 0 && recipe.threads != with.threads) {
    warn("threads is " + std::to_string(recipe.threads) +
         (recipe.threads == 0 ? ", a rank's share of the cores" : "") + ", in the plan it is " +
         std::to_string(with.threads) + ": its batches are the best for ranks of so many; --set " +
         "threads=" + std::to_string(with.threads) +
         " trains so, `convoy plan batch` plans for others");
  }
  const std::string places = difference_from_plan(compared_part(recipe), with.recipe).places;
  if (!places.empty()) warn("the data may be other data: " + places);
  if (with.samples == 0) return;
  const auto size =
      static_cast<std::int64_t>(registry.open_data(recipe.data.reader, recipe.data.train)->size());
  if (size == with.samples) return;
  warn("data.train has " + std::to_string(size) + " samples, in the plan it has " +
       std::to_string(with.samples) + ": updates to a target are those of its data; plan anew");
}

// The recipe with the batch and the rate that the plan has for a job of this size.
train::Recipe planned(const TrainCommandArguments& arguments, const PlanFile& plan,
                      const train::RecipeText& text, const train::Registry& registry, int ranks) {
  std::vector<std::string> overrides = overrides_of(workers_of(plan, ranks));
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  return train::parse_recipe(text, overrides, registry.vocabulary(), arguments.files());
}

void say_planned(const train::Recipe& recipe, int ranks, const std::string& plan) {
  std::printf("batch %lld and learning rate %s for %d worker%s, from %s\n",
              static_cast<long long>(recipe.training.batch), shortest(recipe.optimizer.lr).c_str(),
              ranks, ranks == 1 ? "" : "s", plan.c_str());
  std::fflush(stdout);  // before what the training says
}

// How many the command line asks for.
int ranks_of(const RankOptions& options) {
  if (options.ranks > 0) return options.ranks;
  return std::max(1, total_slots(read_hosts(options.hosts, options.hostfile)));
}

int run_downpour(const train::Recipe& recipe, const TrainCommandArguments& arguments) {
  if (!arguments.plan.empty() || !arguments.timeline.empty())
    throw UsageError("--plan and --timeline are not for strategy \"" + recipe.strategy + "\"");
  return train_downpour(recipe,
                        {arguments.recipe, arguments.overrides, arguments.resume,
                         arguments.overwrite, arguments.ranks},
                        arguments.downpour);
}

int run_train(const TrainCommandArguments& arguments) {
  train::Registry registry;
  if (arguments.recipe.empty()) {
    if (!arguments.print_recipe) {
      throw UsageError(
          "which recipe? Write for example: convoy train recipes/lenet-mnist.toml -n 2");
    }
    std::fputs(train::print_recipe(plain_recipe(registry), true).c_str(), stdout);
    return 0;
  }
  // Read before ranks are started: what is wrong is said once.
  const train::RecipeText text = train::read_recipe_file(arguments.recipe);
  registry.load_plugins(train::plugins_of(text, arguments.overrides));
  const train::Recipe recipe =
      train::parse_recipe(text, arguments.overrides, registry.vocabulary(), arguments.files());
  const std::optional<PlanFile> plan = read_plan(arguments);
  if (plan) check_plan_is_of(recipe, arguments, *plan);
  const auto for_ranks = [&](int ranks) {
    return plan ? planned(arguments, *plan, text, registry, ranks) : recipe;
  };
  if (arguments.print_recipe) {
    const train::Recipe mine = for_ranks(plan ? ranks_of(arguments.ranks) : 1);
    std::fputs(train::print_recipe(mine, true).c_str(), stdout);
    return 0;
  }
  if (train::is_server_job(recipe.strategy)) return run_downpour(recipe, arguments);
  if (arguments.downpour.dry_run || !arguments.downpour.certificates.empty() ||
      !arguments.downpour.data.empty())
    throw UsageError(
        "--dry-run, --certs and --server-data are for strategy \"downpour\" or \"sandblaster\"");
  check_output_file("--timeline", arguments.timeline);
  become_ranks(arguments.ranks, static_cast<int>(recipe.threads), recipe.grid.partitions);
  // Others may wait for a rank that ends by itself.
  if (is_a_rank()) {
    catch_stop_signals();
  } else {
    end_at_stop_signals(kStoppedInSetUp);
  }
  return in_world(arguments.ranks, "train", [&](comm::World& world) {
    catch_stop_signals();
    train::TrainerOptions options;
    options.resume = arguments.resume;
    options.overwrite = arguments.overwrite;
    options.timeline = arguments.timeline;
    options.progress = world.rank() == 0;
    options.version = version_line();
    options.should_stop = stop_signal_came;
    options.stop_in_set_up = [first = world.rank() == 0] {
      end_to_be_started_again(first ? kStoppedInSetUp : nullptr);
    };
    const train::Recipe mine = for_ranks(world.size());
    if (plan && world.rank() == 0) {
      warn_of_other_circumstances(mine, registry, arguments, *plan);
      say_planned(mine, world.size(), arguments.plan);
    }
    train::Trainer trainer(world, registry, mine, options);
    const train::RunResult result = trainer.run();
    if (world.rank() == 0) print_result(result);
    return result.stopped ? kExitRequeue : 0;
  });
}

}  // namespace

void fill_train_command(CLI::App& command, Outcome& outcome) {
  auto arguments = std::make_shared<TrainCommandArguments>();
  arguments->ranks.grace_s = kUsualGrace;
  command.add_option("recipe", arguments->recipe, "The recipe, a TOML file")->type_name("RECIPE");
  add_set_option(command, arguments->overrides);
  command
      .add_option("--resume", arguments->resume,
                  "Go on from the newest checkpoint of the run, or from this one (or the newest of "
                  "this run folder, or the best); later ones are kept in "
                  "checkpoints/superseded-<n>. auto: go on if there is a checkpoint, else begin")
      ->type_name("[CHECKPOINT]")
      ->expected(0, 1)
      ->default_str("latest");
  command
      .add_flag("--overwrite", arguments->overwrite,
                "Remove the files that an earlier run left in the run folder, and no others")
      ->excludes("--resume");
  command.add_flag("--print-recipe", arguments->print_recipe,
                   "Print the complete recipe with its defaults, and do nothing else");
  command
      .add_option("--timeline", arguments->timeline,
                  "Write what each rank did when in updates 11 to 20, for ui.perfetto.dev")
      ->type_name("FILE")
      ->check(writes_file(kTimelineFile));
  command
      .add_option(
          "--plan", arguments->plan,
          "Take batch and learning rate for so many ranks from `convoy plan batch`, and compare "
          "the recipe with what that has measured")
      ->type_name("plan.toml");
  add_rank_options(command, arguments->ranks);
  add_downpour_options(command, arguments->downpour);
  command
      .add_option("--grace", arguments->ranks.grace_s,
                  "How long the update under way and a checkpoint may take when told to stop (120)")
      ->type_name("SECONDS")
      ->check(positive_number());
  command.callback([arguments, &command, &outcome] {
    if (command.count("--resume") > 0 && arguments->resume.empty()) arguments->resume = "latest";
    // `--resume mine.toml`: the recipe, and not a checkpoint.
    if (arguments->recipe.empty() && arguments->resume.ends_with(".toml")) {
      arguments->recipe = std::exchange(arguments->resume, "latest");
    }
    outcome.exit_status = run_train(*arguments);
  });
}

}  // namespace convoy::cli
