#include "train/run/place.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/train/compute.h"
#include "convoy/train/planning.h"
#include "train/checkpoint/resume.h"
#include "train/recipe/automatic.h"
#include "train/recipe/former.h"
#include "train/setup.h"

namespace convoy::train {
namespace {

using plan::Parallelism;
using plan::StepForecast;

// Of the recipe's candidates.
Recipe with_strategy(const Recipe& recipe, const std::string& strategy) {
  for (Recipe& candidate : candidates_of(recipe)) {
    if (candidate.strategy != strategy) continue;
    candidate.placement.automatic = false;
    return candidate;
  }
  throw UsageError("the planner has chosen " + strategy + ", which is not among the recipe's");
}

Recipe with_grid(const Recipe& recipe, std::int64_t partitions, const std::string& scheme,
                 std::int64_t senders) {
  Recipe chosen = with_strategy(recipe, "hybrid");
  chosen.grid.partitions = partitions;
  chosen.strategy_options.set("scheme", scheme);
  chosen.strategy_options.set("senders", senders);
  return chosen;
}

Recipe with_placement(const Recipe& recipe, const plan::Placement& placement) {
  if (placement.kind == Parallelism::data) return with_strategy(recipe, "sync");
  const std::string scheme = scheme_of(placement);
  return with_grid(recipe, placement.partitions, scheme, scheme == "bc" ? placement.senders : 0);
}

// As the checkpoint's run had it.
std::optional<Recipe> of_checkpoint(const comm::World& world, const Registry& registry,
                                    const Recipe& recipe, const std::string& resume) {
  const Origin origin = find_origin(world.communicator(), resume, recipe.output.folder);
  if (origin.manifest.world != world.size()) return std::nullopt;
  const Recipe before = parse_recipe({of_today(origin.manifest.recipe), origin.path, "/"}, {},
                                     registry.vocabulary(), Files::may_be_missing);
  if (before.strategy == "sync" && recipe.strategy == kAutomatic)
    return with_strategy(recipe, "sync");
  if (before.strategy != "hybrid") return std::nullopt;
  const Options& keys = before.strategy_options;
  return with_grid(recipe, before.grid.partitions, keys.text("scheme"), keys.integer("senders"));
}

std::string name_of(const Recipe& recipe, int world) {
  if (recipe.strategy != "hybrid") return recipe.strategy;
  const Options& keys = recipe.strategy_options;
  const std::string senders =
      keys.integer("senders") > 0 ? " " + std::to_string(keys.integer("senders")) : "";
  return "hybrid, scheme " + keys.text("scheme") + senders + ", " +
         std::to_string(world / recipe.grid.partitions) + " x " +
         std::to_string(recipe.grid.partitions);
}

// What is planned of it, besides what the network is.
class Planning {
 public:
  Planning(const comm::World& world, const Registry& registry, const Recipe& recipe)
      : world_(world), registry_(registry), recipe_(recipe) {}

  Recipe choose();

 private:
  // Nothing, and why, where the network can't be looked into.
  std::optional<PlacementProblem> problem(std::string& why);
  bool fits(const plan::Placement& placement) const {
    if (placement.kind == Parallelism::model) return false;
    return recipe_.strategy == kAutomatic || placement.kind == Parallelism::hybrid;
  }
  void tell(const std::vector<StepForecast>& forecasts, const StepForecast& best) const;
  void say(const std::string& text) const {
    if (world_.rank() == 0) world_.log().info(text);
  }
  Recipe without_planning(const std::string& why) const;

  const comm::World& world_;
  const Registry& registry_;
  const Recipe& recipe_;
};

// What a rank has of a batch, in samples.
std::int64_t samples_per_rank(const Recipe& recipe, const Task& task, const data::Dataset& data,
                              int ranks) {
  double batch = static_cast<double>(recipe.training.batch);
  if (const auto cost = task.cost(data)) {
    const std::size_t some = std::min<std::size_t>(data.size(), 1000);
    double sum = 0;
    for (std::size_t i = 0; i < some; ++i) sum += static_cast<double>(cost(i));
    batch *= static_cast<double>(some) / std::max(sum, 1.0);
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(batch / ranks + 0.5));
}

std::optional<PlacementProblem> Planning::problem(std::string& why) {
  const DataSets data = open_data(world_.communicator(), registry_, recipe_.data);
  const auto task = registry_.make_task(recipe_);
  task->look(*data.training, data.validation.get());
  const Compute compute(recipe_);
  const auto network = RecipeNetwork(registry_, recipe_, *task, compute).blueprint();
  if (!network) {
    why = "the model '" + recipe_.model.name + "' is code, which can't be divided";
    return std::nullopt;
  }
  PlacementProblem problem;
  problem.recipe = candidates_of(recipe_).front();
  problem.network = *network;
  problem.inputs = network->inputs;
  const TaskBatch blank = task->blank(1, compute);
  if (!blank.tensors.empty()) {
    problem.inputs.clear();
    for (const torch::Tensor& input : task->inputs(blank))
      problem.inputs.push_back(input.sizes().slice(1).vec());
  }
  problem.ranks = world_.size();
  problem.samples_per_rank = samples_per_rank(recipe_, *task, *data.training, world_.size());
  problem.optimizer = registry_.optimizer(recipe_.optimizer.name);
  return problem;
}

Recipe Planning::without_planning(const std::string& why) const {
  // Where it can't be had, hybrid says so itself.
  const bool sync = recipe_.strategy == kAutomatic;
  const Recipe chosen =
      sync ? with_strategy(recipe_, "sync") : with_grid(recipe_, world_.size(), "c", 0);
  say("placement: " + name_of(chosen, world_.size()) + ", since " + why);
  return chosen;
}

void Planning::tell(const std::vector<StepForecast>& forecasts, const StepForecast& best) const {
  const auto text = [this](const StepForecast& one) {
    return plan::name_of(one.placement, world_.size()) + ": " + format_seconds(one.step_s);
  };
  std::string others;
  for (const StepForecast& one : forecasts) {
    if (fits(one.placement) && !(one.placement == best.placement))
      others += (others.empty() ? "" : ", ") + text(one);
  }
  say("placement: " + plan::name_of(best.placement, world_.size()) + ", planned to take " +
      format_seconds(best.step_s) + " a step (computing " + format_seconds(best.compute_s) +
      ", waiting " + format_seconds(best.exposed_s) + ")" +
      (others.empty() ? "" : "; others: " + others));
}

Recipe Planning::choose() {
  if (world_.size() == 1) return without_planning("there is one rank");
  std::string why;
  const auto all = problem(why);
  if (!all) return without_planning(why);
  std::vector<StepForecast> forecasts;
  try {
    say("placement: measuring layers and links");
    const bool variable =
        recipe_.strategy == "hybrid" && recipe_.strategy_options.flag("variable_batch");
    const PlacementPlan plan = plan_placement(*all, measure_placement(world_, *all, 2), variable);
    for (const StepForecast& one : plan.forecasts) {
      if (fits(one.placement)) forecasts.push_back(one);
    }
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw UsageError(
        "the planner can't run the model '" + recipe_.model.name +
        "' on made-up numbers: choose strategy and placement yourself. LibTorch says: " +
        text.substr(0, text.find('\n')));
  }
  if (forecasts.empty()) return without_planning("no layer of the network can be divided so");
  std::vector<std::int64_t> best{static_cast<std::int64_t>(plan::best_placement(forecasts))};
  world_.communicator().broadcast(comm::buffer_of(best), 0);
  const StepForecast& chosen = forecasts[static_cast<std::size_t>(best[0])];
  tell(forecasts, chosen);
  return with_placement(recipe_, chosen.placement);
}

}  // namespace

Recipe placed(const comm::World& world, const Registry& registry, const Recipe& recipe,
              const std::string& resume) {
  if (!recipe.automatic()) return recipe;
  if (!resume.empty()) {
    if (const auto before = of_checkpoint(world, registry, recipe, resume)) {
      if (world.rank() == 0)
        world.log().info("placement: " + name_of(*before, world.size()) + ", as in the checkpoint");
      return *before;
    }
  }
  return Planning(world, registry, recipe).choose();
}

}  // namespace convoy::train
