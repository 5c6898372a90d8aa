#include "train/run/place.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/train/compute.h"
#include "convoy/train/memory.h"
#include "convoy/train/planning.h"
#include "train/checkpoint/resume.h"
#include "train/compute/device.h"
#include "train/compute/gpu.h"
#include "train/recipe/automatic.h"
#include "train/recipe/former.h"
#include "train/run/inputs.h"
#include "train/setup.h"

namespace convoy::train {
namespace {

using plan::Parallelism;
using plan::StepForecast;

struct Scheme {
  std::string name;
  std::int64_t senders = 0, passes = 0;
};

Recipe with_grid(const Recipe& recipe, std::int64_t partitions, const Scheme& scheme) {
  Recipe chosen = candidate_of(recipe, "hybrid");
  chosen.grid.partitions = partitions;
  chosen.strategy_options.set("scheme", scheme.name);
  chosen.strategy_options.set("senders", scheme.senders);
  chosen.strategy_options.set("passes", scheme.passes);
  return chosen;
}

// As the checkpoint's run had it.
std::optional<Recipe> of_checkpoint(const comm::World& world, const Registry& registry,
                                    const Recipe& recipe, const std::string& resume) {
  const Origin origin = find_origin(world.communicator(), resume, recipe.output.folder);
  if (origin.manifest.world != world.size()) return std::nullopt;
  const Recipe before = parse_recipe({of_today(origin.manifest.recipe), origin.path, "/"}, {},
                                     registry.vocabulary(), Files::may_be_missing);
  if (before.strategy == "sync" && recipe.strategy == kAutomatic)
    return candidate_of(recipe, "sync");
  if (before.strategy != "hybrid") return std::nullopt;
  const Options& keys = before.strategy_options;
  return with_grid(recipe, before.grid.partitions,
                   {keys.text("scheme"), keys.integer("senders"), keys.integer("passes")});
}

// What its strategy says against a recipe that was chosen; "": nothing. It was read without the
// scheme and the grid.
std::string problem_of(const Recipe& chosen, const Registry& registry) {
  std::vector<std::string> problems;
  check_strategy(chosen, registry.vocabulary(), problems);
  return problems.empty() ? "" : problems.front();
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
  double memory_of_rank() const;
  void tell(const std::vector<StepForecast>& forecasts, const StepForecast& best) const;
  void say(const std::string& text) const {
    if (world_.rank() == 0) world_.log().info(text);
  }
  Recipe without_planning(const std::string& why) const;

  const comm::World& world_;
  const Registry& registry_;
  const Recipe& recipe_;
};

std::optional<PlacementProblem> Planning::problem(std::string& why) {
  const std::shared_ptr<Task> task = registry_.make_task(recipe_);
  const DataSets data = open_data(world_.communicator(), registry_, recipe_.data);
  look_at(data, recipe_, *task);
  const Compute compute(recipe_, world_.local_rank());
  std::optional<model::Blueprint> network;
  try {
    network = RecipeNetwork(registry_, recipe_, *task, compute).blueprint();
    if (!network) why = "the model '" + recipe_.model.name + "' is code, which can't be divided";
  } catch (const UsageError& error) {
    why = error.what();
  }
  if (!network) return std::nullopt;
  PlacementProblem problem;
  problem.recipe = candidates_of(recipe_).front();
  problem.network = *network;
  problem.inputs = network->inputs;
  const TaskBatch blank = task->blank(1, compute);
  if (!blank.tensors.empty()) {
    problem.inputs.clear();
    for (const torch::Tensor& input : task->inputs(blank)) {
      problem.inputs.push_back(input.sizes().slice(1).vec());
      if (input.size(0) == 1 || recipe_.strategy != kAutomatic) continue;
      why = "samples of the task " + recipe_.task.name + " are not one row each, as hybrid needs";
      return std::nullopt;
    }
  }
  problem.ranks = world_.size();
  problem.samples_per_rank = samples_per_rank(recipe_, *task, *data.training, world_.size());
  problem.optimizer = registry_.optimizer(recipe_.optimizer.name);
  problem.task = task;
  return problem;
}

Recipe Planning::without_planning(const std::string& why) const {
  // Where it can't be had, hybrid says so itself. Groups of one are had with any number of ranks.
  const bool sync = recipe_.strategy == kAutomatic;
  const Recipe chosen = sync ? candidate_of(recipe_, "sync") : with_grid(recipe_, 1, {"c"});
  say("placement: " + plan::name_of(placement_of(chosen), world_.size()) + ", since " + why);
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

// On its host, or its GPU, with what it has already; the least of all ranks'. 0: this LibTorch says
// nothing of the memory of a GPU.
double Planning::memory_of_rank() const {
  std::vector<double> bytes{0};
  const DeviceName device = parse_device(recipe_.device).value_or(DeviceName());
  if (!device.cuda) {
    bytes[0] = static_cast<double>(available_memory()) / world_.local_size() +
               static_cast<double>(resident_memory());
  } else if (const auto memory = device_memory(open_device(recipe_.device, world_.local_rank()))) {
    const int sharing = ranks_on_gpu(device, world_.local_rank(), world_.local_size(), gpus());
    bytes[0] = static_cast<double>(memory->free) / sharing + static_cast<double>(memory->taken);
  }
  world_.communicator().allreduce(comm::buffer_of(bytes), comm::ReduceOp::min);
  return bytes[0];
}

Recipe Planning::choose() {
  if (world_.size() == 1) return without_planning("there is one rank");
  std::string why;
  const auto all = problem(why);
  if (!all) return without_planning(why);
  if (group_sizes(training_cost(*all), world_.size()).empty()) {
    return without_planning("the network has no layers that groups of these " +
                            std::to_string(world_.size()) + " ranks can divide");
  }
  const double memory = memory_of_rank();
  std::vector<StepForecast> forecasts;
  try {
    say("placement: measuring layers and links");
    const bool variable =
        recipe_.strategy == "hybrid" && recipe_.strategy_options.flag("variable_batch");
    if (variable) {
      say("placement: with hybrid.variable_batch the grid and the scheme decide the batches of "
          "divided layers, so that what is trained goes by what is measured now; the run's "
          "recipe.toml says which they are, to train the same again");
    }
    const PlacementPlan plan = plan_placement(*all, measure_placement(world_, *all, 2), variable);
    for (const StepForecast& one : plan.forecasts) {
      if (fits(one.placement)) forecasts.push_back(one);
    }
  } catch (const c10::OutOfMemoryError&) {
    throw;  // the model is none that can't be run
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw UsageError(
        "the planner can't run the model '" + recipe_.model.name +
        "' on made-up numbers: choose strategy and placement yourself. LibTorch says: " +
        text.substr(0, text.find('\n')));
  }
  std::vector<std::int64_t> best{static_cast<std::int64_t>(best_within(forecasts, memory))};
  world_.communicator().broadcast(comm::buffer_of(best), 0);
  const StepForecast& chosen = forecasts[static_cast<std::size_t>(best[0])];
  tell(forecasts, chosen);
  if (memory > 0 && chosen.memory_bytes > memory && world_.rank() == 0) {
    const auto text = [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
    world_.log().warning("placement: all may need more memory than the " + text(memory) +
                         " that a rank can have here; this one needs least, " +
                         text(chosen.memory_bytes));
  }
  return with_placement(recipe_, chosen.placement);
}

}  // namespace

Recipe with_placement(const Recipe& recipe, const plan::Placement& placement) {
  if (placement.kind == Parallelism::data) return candidate_of(recipe, "sync");
  const std::string scheme = scheme_of(placement);
  return with_grid(recipe, placement.partitions,
                   {scheme, scheme == "bc" ? placement.senders : 0, placement.passes});
}

std::int64_t samples_per_rank(const Recipe& recipe, const Task& task, const data::Dataset& data,
                              int ranks) {
  const auto size = static_cast<double>(data.size());
  auto batch = static_cast<double>(recipe.training.batch);
  if (const auto cost = task.cost(data)) {
    // Data may be in the order of their lengths.
    const std::size_t some = std::min<std::size_t>(data.size(), 1000);
    double sum = 0;
    for (std::size_t i = 0; i < some; ++i) sum += static_cast<double>(cost(i * data.size() / some));
    batch /= std::max(sum / static_cast<double>(some), 1.0);
  }
  batch = std::min(batch, size);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(batch / ranks + 0.5));
}

std::size_t best_within(const std::vector<StepForecast>& forecasts, double memory_bytes) {
  const auto least = std::min_element(
      forecasts.begin(), forecasts.end(),
      [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
  if (memory_bytes > 0 && least->memory_bytes > memory_bytes)
    return static_cast<std::size_t>(least - forecasts.begin());
  return plan::best_placement(forecasts, memory_bytes);
}

Recipe placed(const comm::World& world, const Registry& registry, const Recipe& recipe,
              const std::string& resume) {
  if (!recipe.automatic()) return recipe;
  if (!resume.empty()) {
    if (const auto before = of_checkpoint(world, registry, recipe, resume)) {
      const std::string problem = problem_of(*before, registry);
      const std::string name =
          plan::name_of(placement_of(*before), world.size()) + ", as in the checkpoint";
      if (world.rank() == 0) {
        world.log().info("placement: " +
                         (problem.empty() ? name : "not " + name + ", since " + problem));
      }
      if (problem.empty()) return *before;
    }
  }
  const Recipe chosen = Planning(world, registry, recipe).choose();
  release_large_blocks();  // that measuring took: other memory goes by what is free
  const std::string problem = problem_of(chosen, registry);
  if (problem.empty()) return chosen;
  throw UsageError("the planner has chosen " + plan::name_of(placement_of(chosen), world.size()) +
                   ", which this recipe can't have: " + problem);
}

}  // namespace convoy::train
