#include "train/run/inputs.h"

#include "base/toml_text.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/data/loader.h"
#include "convoy/train/evaluate.h"
#include "train/due.h"
#include "train/facts.h"
#include "train/optimizer/grouped_optimizer.h"
#include "train/run/arrange.h"
#include "train/samples/open.h"

namespace convoy::train {
namespace {

// The metric of this name; `key` is what names it.
Metric metric_of(const Task& task, const Recipe& recipe, const std::string& key,
                 const std::string& wanted) {
  std::vector<std::string> names;
  std::string known;
  for (const Metric& metric : task.metrics()) {
    if (metric.name == wanted) return metric;
    names.push_back(metric.name);
    known += (known.empty() ? "" : ", ") + metric.name;
  }
  const std::string near = nearest_name(wanted, names);
  throw UsageError(key + " is '" + wanted + "', but the task " + recipe.task.name +
                   " has no such metric; it has " + known +
                   (near.empty() ? "" : " (did you mean " + near + "?)"));
}

std::optional<Metric> target_metric(const Recipe& recipe, const Task& task) {
  const std::string& wanted = recipe.training.target.metric;
  if (wanted.empty()) return std::nullopt;
  return metric_of(task, recipe, "training.target.metric", wanted);
}

// The metric that the recipe, or else the task, goes by.
std::string best_metric(const Recipe& recipe, const Task& task) {
  const std::string& wanted = recipe.checkpoint.best;
  if (!wanted.empty()) return metric_of(task, recipe, "checkpoint.best", wanted).name;
  if (const auto target = target_metric(recipe, task)) return target->name;
  return metric_of(task, recipe, "the task's usual_best", task.usual_best()).name;
}

std::string which_samples(const EvaluationRecipe& evaluation) {
  if (evaluation.from == "validation" && evaluation.fraction == 1) return "";
  const std::string part = evaluation.fraction == 1 ? "" : shortest(evaluation.fraction) + " of ";
  return " on " + part + "data." + (evaluation.from == "training" ? "train" : evaluation.from);
}

}  // namespace

void check_metrics(const Recipe& recipe, const Task& task) {
  best_metric(recipe, task);
  target_metric(recipe, task);
}

Inputs::Inputs(const comm::World& the_world, const Registry& registry, Recipe& the_recipe,
               const StrategyFactory& make)
    : world(the_world),
      recipe(the_recipe),
      compute(recipe),
      task(registry.make_task(recipe)),
      best(best_metric(recipe, *task)),
      figure(best + which_samples(recipe.evaluation)),
      target(target_metric(recipe, *task)),
      strategy(make ? make() : registry.make_strategy(recipe.strategy)),
      arrangement(arrange(world, recipe, *strategy)) {}

void Inputs::open(const Registry& registry, const std::string& resume) {
  data = open_data(all(), registry, recipe.data);
  look_at(data, recipe, *task);
  evaluated = evaluated_part(data, recipe);
  // The first evaluation may come after hours of training.
  if (evaluated && !task->raw())
    data::output_shape(*evaluated, evaluation_transform(recipe.data), on_bad(recipe.data));
  std::optional<Recipe> former;
  if (!resume.empty()) {
    origin = find_origin(all(), resume, recipe.output.folder);
    former = recipe_of(*origin, registry.vocabulary());
  }
  const RecipeNetwork network(registry, recipe, *task, compute);
  recipe.strategy_options = strategy->settle(network, former ? &*former : nullptr);
  if (origin) {
    const Recipe before = check_origin(*origin, recipe, registry.vocabulary(), *data.training,
                                       world.rank() == 0 ? &world.log() : nullptr);
    check_facts(*task, origin->manifest, origin->path);
    epoch_was_over = is_over(origin->manifest.position, data.training->size(), before);
  }
  strategy->build(network);
  check_groups(all(), recipe.optimizer, parallel::unique_parameters(strategy->module()));
  // A run that goes on has its weights, and may have lost this file.
  if (recipe.model.weights.empty() || origin) return;
  const WeightsReport report = load_weights(all(), *strategy, recipe.model);
  if (world.rank() == 0) world.log().info(recipe.model.weights + ": " + describe(report));
}

bool Inputs::reached(double score) const {
  const double level = recipe.training.target.level;
  return score >= (target->higher_is_better ? level : -level);  // greater scores are better
}

std::unique_ptr<data::SampleSource> open_training(const Inputs& inputs, std::size_t least_share) {
  const Recipe& recipe = inputs.recipe;
  const auto samples = inputs.data.training->size();
  const auto batch = static_cast<std::size_t>(recipe.training.batch);
  const bool counted = !inputs.task->cost(*inputs.data.training);
  if (!counted && least_share > 1) {
    throw UsageError("the model '" + recipe.model.name + "' can't be trained on " +
                     (least_share == 2 ? "one sample alone"
                                       : "fewer than " + std::to_string(least_share) + " samples") +
                     " (batch normalization has nothing to compare it with), and batches of the "
                     "task '" +
                     recipe.task.name + "' are counted in " + inputs.task->unit() +
                     ", which can leave a rank with so few: choose a model without such layers");
  }
  if (inputs.world.rank() == 0 && counted && batch > samples && !recipe.data.drop_last) {
    inputs.world.log().warning("training.batch is " + std::to_string(batch) +
                               ", but data.train holds " + std::to_string(samples) +
                               ": each update takes all of it");
  }
  return open_samples(
      inputs.world, inputs.data.training,
      {recipe, *inputs.task, inputs.arrangement, inputs.compute.layout(), least_share});
}

}  // namespace convoy::train
