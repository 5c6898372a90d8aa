#include "train/run/inputs.h"

#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/train/evaluate.h"
#include "train/due.h"
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

// What the strategy says has to make sense over all ranks, or batches would lose samples.
void check_arrangement(const comm::World& world, const Arrangement& own, const std::string& name) {
  std::string text = std::to_string(own.share) + " " + std::to_string(own.shares) + " " +
                     std::to_string(own.reads() ? 1 : 0) + " " + std::to_string(own.owner);
  const std::vector<std::string> all = world.communicator().gather_text(text);
  std::vector<int> readers(static_cast<std::size_t>(std::max(own.shares, 1)));
  bool good = own.shares >= 1 && (own.owner == 0 || own.owner == -1);
  for (const std::string& one : all) {
    int share = 0, shares = 0, reads = 0, owner = 0;
    std::sscanf(one.c_str(), "%d %d %d %d", &share, &shares, &reads, &owner);
    good = good && shares == own.shares && owner == own.owner && share >= 0 && share < shares;
    if (good && reads != 0) ++readers[static_cast<std::size_t>(share)];
  }
  for (const int count : readers) good = good && count == 1;
  if (good) return;
  throw UsageError("the strategy " + name +
                   " arranges the ranks so that a share of a batch has no reader, or two");
}

}  // namespace

Inputs::Inputs(const comm::World& the_world, const Registry& registry, const Recipe& the_recipe)
    : world(the_world),
      recipe(the_recipe),
      compute(recipe),
      task(registry.make_task(recipe)),
      best(best_metric(recipe, *task)),
      target(target_metric(recipe, *task)),
      strategy(registry.make_strategy(recipe.strategy)),
      arrangement(strategy->arrange(world, recipe)) {
  check_arrangement(world, arrangement, recipe.strategy);
}

void Inputs::open(const Registry& registry, const std::string& resume) {
  data = open_data(all(), registry, recipe.data);
  task->look(*data.training, data.validation.get());
  evaluated = evaluated_part(data, recipe);
  if (!resume.empty()) {
    origin = find_origin(all(), resume, recipe.output.folder);
    const Recipe before = check_origin(*origin, recipe, registry.vocabulary(), *data.training,
                                       world.rank() == 0 ? &world.log() : nullptr);
    epoch_was_over = is_over(origin->manifest.position, data.training->size(), before);
  }
  strategy->build(RecipeNetwork(registry, recipe, *task, compute));
  // A run that goes on has its weights, and may have lost this file.
  if (recipe.model.weights.empty() || origin) return;
  const WeightsReport report =
      load_weights(strategy->module(), recipe.model.weights, recipe.model.partial);
  if (world.rank() == 0) world.log().info(recipe.model.weights + ": " + describe(report));
}

std::unique_ptr<data::SampleSource> open_training(const Inputs& inputs, std::size_t least_share) {
  const Recipe& recipe = inputs.recipe;
  const auto samples = inputs.data.training->size();
  const auto batch = static_cast<std::size_t>(recipe.training.batch);
  const bool counted = !inputs.task->cost(*inputs.data.training);
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
