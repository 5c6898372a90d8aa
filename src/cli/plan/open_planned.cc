#include "cli/plan/planned.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/toml_text.h"
#include "cli/plan/network.h"
#include "cli/plan/place.h"
#include "cli/plan/plan_recipe.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/system.h"
#include "convoy/train/registry.h"
#include "train/compute/gpu.h"

namespace convoy::cli {
namespace {

constexpr double kFraction = 0.2;

// Without what is_left_out_of_fingerprints() names. `sizes`: of the data.
std::string fingerprint_of(train::Recipe recipe, const std::string& sizes) {
  recipe.name = "plan";
  recipe.seed = 1;
  recipe.training.batch = 1;
  recipe.optimizer.lr = 1;
  char text[17];
  std::snprintf(
      text, sizeof text, "%016llx",
      static_cast<unsigned long long>(number_of(train::print_recipe(recipe, false) + sizes)));
  return text;
}

// In what training.batch counts.
std::int64_t size_of(const data::Dataset& data, const train::Task& task) {
  const auto cost = task.cost(data);
  if (!cost) return static_cast<std::int64_t>(data.size());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) sum += cost(i);
  return static_cast<std::int64_t>(sum);
}

using GoalOf = std::function<Goal(const std::vector<KnownMetric>&, bool has_validation)>;

Planned open_with(const RecipeWords& words, const GoalOf& goal_of) {
  train::Registry registry;
  const train::RecipeText text = train::read_recipe_file(words.path);
  registry.load_plugins(train::plugins_of(text, words.overrides));
  Planned planned;
  planned.recipe = train::parse_recipe(text, words.overrides, registry.vocabulary());
  train::Recipe& recipe = planned.recipe;
  if (recipe.grid.partitions > 1) {
    throw UsageError("grid.partitions is " + std::to_string(recipe.grid.partitions) +
                     ", and a plan of batches trains on one rank: --set strategy=sync --set "
                     "grid.partitions=1 plans for data parallelism");
  }
  if (recipe.device != "cpu" && recipe.device != "cuda") {
    throw UsageError(
        "device is \"" + recipe.device +
        "\", and trainings that are measured see one GPU each: say \"cuda\", and which "
        "GPUs there are with CUDA_VISIBLE_DEVICES");
  }
  const auto task = registry.make_task(recipe);
  std::vector<KnownMetric> known;
  for (const train::Metric& metric : task->metrics())
    known.push_back({metric.name, metric.higher_is_better, metric.percent});
  planned.goal = goal_of(known, recipe.data.has_validation);

  const bool training = planned.goal.on_training;
  recipe.evaluation.from = training ? "training" : "validation";
  if (!train::gives(text, words.overrides, "evaluation.fraction"))
    recipe.evaluation.fraction = kFraction;
  const auto data = registry.open_data(recipe.data.reader, recipe.data.train);
  if (data->size() == 0) throw UsageError("data.train holds no samples");
  planned.samples = size_of(*data, *task);
  planned.counts_samples = !task->cost(*data);
  std::int64_t evaluated = planned.samples;
  if (!training) {
    evaluated = size_of(*registry.open_data(recipe.data.reader, recipe.data.validation), *task);
  }
  planned.evaluated = std::max<std::int64_t>(
      std::llround(recipe.evaluation.fraction * static_cast<double>(evaluated)), 1);
  planned.epochs = recipe.training.steps > 0 ? static_cast<double>(recipe.training.steps) *
                                                   static_cast<double>(recipe.training.batch) /
                                                   static_cast<double>(planned.samples)
                                             : static_cast<double>(recipe.training.epochs);
  if (recipe.device == "cuda")
    planned.gpus = gpu_names(train::gpus(), environment("CUDA_VISIBLE_DEVICES"));
  make_plain(recipe);
  // Levels of other validation data are other levels.
  planned.fingerprint =
      fingerprint_of(recipe, std::to_string(planned.samples) +
                                 (training ? "" : "," + std::to_string(planned.evaluated)));
  return planned;
}

}  // namespace

Planned open_planned(const RecipeWords& recipe, const GoalWords& goal) {
  return open_with(recipe, [&goal](const std::vector<KnownMetric>& known, bool has_validation) {
    return parse_goal(goal, known, has_validation);
  });
}

Planned open_planned(const RecipeWords& recipe, const plan::PlanHeader& header) {
  std::string levels;
  for (const double level : header.targets) levels += (levels.empty() ? "" : ",") + shortest(level);
  return open_planned(recipe, GoalWords{.target = "", .targets = levels, .metric = header.metric});
}

std::optional<double> gradient_bytes_of(const RecipeWords& words) {
  train::Registry registry;
  const train::RecipeText text = train::read_recipe_file(words.path);
  registry.load_plugins(train::plugins_of(text, words.overrides));
  return gradient_bytes_of(train::parse_recipe(text, words.overrides, registry.vocabulary()),
                           registry);
}

}  // namespace convoy::cli
