#include "train/run/inputs.h"

#include <algorithm>
#include <span>

#include "base/toml_text.h"
#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/data/loader.h"
#include "convoy/train/evaluate.h"
#include "train/due.h"
#include "train/facts.h"
#include "train/optimizer/grouped_optimizer.h"
#include "train/recipe/fields.h"
#include "train/run/arrange.h"
#include "train/samples/ahead.h"
#include "train/samples/open.h"
#include "train/strategies/devices/options.h"
#include "train/tasks/metrics.h"

namespace convoy::train {
namespace {

std::string which_samples(const EvaluationRecipe& evaluation) {
  if (evaluation.from == "validation" && evaluation.fraction == 1) return "";
  const std::string part = evaluation.fraction == 1 ? "" : shortest(evaluation.fraction) + " of ";
  return " on " + part + "data." + (evaluation.from == "training" ? "train" : evaluation.from);
}

// Whether a key of the recipe decides what a network's score is. Where the files are does not: the
// data have a fingerprint of their own.
bool decides_scores(const std::string& key, const Recipe& recipe) {
  for (const char* same : {"precision", "data.size", "data.channels", "data.mean", "data.deviation",
                           "data.pixel", "data.reader", "task.name"}) {
    if (key == same) return true;
  }
  if (key.starts_with("data.evaluate.") || key.starts_with("task.options.")) return true;
  const bool training = recipe.evaluation.from == "training";
  const std::string table = training ? "data.train." : "data.validation.";
  if (!key.starts_with(table)) return false;
  const Options& options = training ? recipe.data.train : recipe.data.validation;
  return std::none_of(options.specification().begin(), options.specification().end(),
                      [&](const Option& option) {
                        return option.kind == Option::Kind::path && table + option.key == key;
                      });
}

std::uint64_t fingerprint_of_scores(const Recipe& recipe, const data::Dataset& evaluated) {
  std::string text = to_hex(evaluated.fingerprint()) + " " + std::to_string(evaluated.size());
  for (const auto& [key, value] : recipe_keys(print_recipe(recipe, false))) {
    if (decides_scores(key, recipe)) text += "\n" + key + " = " + value;
  }
  return xxh3(std::as_bytes(std::span(text)));
}

std::string image_text(const data::Shape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

// What is evaluated may be of another size than what is trained on, where a recipe says none. Not
// all networks can take that. Nothing where it is not so.
std::string other_images(const data::Shape& evaluated, const data::Shape& trained) {
  if (trained.elements() == 0 || evaluated == trained) return "";
  return "evaluations are on images of " + image_text(evaluated) +
         ", and the network is trained on " + image_text(trained) +
         ": it has to be one that takes both. data.size and data.channels make them alike";
}

}  // namespace

Inputs::Inputs(const comm::World& the_world, const Registry& registry, Recipe& the_recipe,
               const StrategyFactory& make)
    : world(the_world),
      recipe(the_recipe),
      compute(recipe, first_gpu_of_rank(recipe, world.local_rank())),
      task(registry.make_task(recipe)),
      best(best_metric(recipe, *task)),
      figure(best + which_samples(recipe.evaluation)),
      target(target_metric(recipe, *task)),
      strategy(make ? make() : registry.make_strategy(recipe.strategy)),
      arrangement(arrange(world, recipe, *strategy)) {}

void Inputs::open(const Registry& registry, const std::string& resume) {
  data = open_data(all(), registry, recipe.data);
  if (world.rank() == 0) {
    for (const std::string& remark : data.remarks) world.log().warning(remark);
  }
  look_at(data, recipe, *task);
  evaluated = evaluated_part(data, recipe);
  evaluated_training = train::evaluated_training(data, recipe);
  // The first evaluation may come after hours of training.
  if (evaluated && !task->raw()) {
    const data::Shape trained = image_of(task->facts());
    const data::Shape shape = data::output_shape(
        *evaluated, evaluation_transform(recipe.data, trained), on_bad(recipe.data));
    const std::string other = other_images(shape, trained);
    if (world.rank() == 0 && !other.empty()) world.log().warning(other);
  }
  if (world.rank() == 0 && recipe.data.channels == 0 && !task->raw()) {
    const std::string loss = data::color_made_gray(*data.training);
    if (!loss.empty()) {
      world.log().warning("data.train: " + loss +
                          "; with data.channels = 0 the first one decides for all of them. Set "
                          "data.channels = 3 to keep colors, or 1 if gray is what you want");
    }
  }
  std::optional<Recipe> former;
  if (!resume.empty()) {
    origin = find_origin(all(), resume, recipe.output.folder);
    former = recipe_of(*origin, registry.vocabulary());
  }
  const RecipeNetwork network(registry, recipe, *task, compute, /*trains=*/true,
                              /*goes_on=*/origin.has_value());
  recipe.strategy_options = strategy->settle(network, former ? &*former : nullptr);
  if (evaluated) measured_on = fingerprint_of_scores(recipe, *evaluated);
  if (origin) {
    // A part without evaluations leaves what was the best so.
    if (!evaluated) measured_on = origin->manifest.measured_on;
    const Recipe before = check_origin(*origin, recipe, registry.vocabulary(), *data.training,
                                       world.rank() == 0 ? &world.log() : nullptr);
    check_facts(*task, origin->manifest, origin->path);
    epoch_was_over = is_over(origin->manifest.position, data.training->size(), before);
  }
  strategy->build(network);
  check_groups(all(), recipe.optimizer, parallel::unique_parameters(strategy->module()));
  // A run that goes on has its weights, and may have lost this file.
  if (!recipe.model.weights.empty() && !origin) load_weights(world, recipe, *task, *strategy);
}

bool Inputs::reached(double score) const {
  const double level = recipe.training.target.level;
  return score >= (target->higher_is_better ? level : -level);  // greater scores are better
}

namespace {

// Where the schedule counts in one unit and training in the other.
void check_warmup(const Recipe& recipe, double steps_per_epoch) {
  if (steps_per_epoch == 0) return;
  const ScheduleRecipe& schedule = recipe.schedule;
  const TrainingRecipe& training = recipe.training;
  const bool in_steps = training.steps > 0;
  const auto length = static_cast<double>(in_steps ? training.steps : training.epochs);
  const double warmup =
      schedule.unit == "epochs" ? schedule.warmup * steps_per_epoch : schedule.warmup;
  if (warmup <= (in_steps ? length : length * steps_per_epoch)) return;
  throw UsageError("schedule.warmup is " + shortest(schedule.warmup) + " " + schedule.unit +
                   ", longer than the training of " + shortest(length) +
                   (in_steps ? " steps" : " epochs") + ": an epoch has " +
                   shortest(steps_per_epoch) + " steps");
}

}  // namespace

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
  if (counted) {
    const std::size_t last = !recipe.data.drop_last && samples % batch > 0 ? 1 : 0;
    check_warmup(recipe, static_cast<double>(samples / batch + last));
  }
  if (inputs.world.rank() == 0 && counted && batch > samples && !recipe.data.drop_last) {
    inputs.world.log().warning("training.batch is " + std::to_string(batch) +
                               ", but data.train holds " + std::to_string(samples) +
                               ": each update takes all of it");
  }
  const data::Shape image = image_of(inputs.task->facts());
  if (inputs.world.rank() == 0 && counted && !inputs.task->raw()) {
    const std::size_t share =
        std::min(batch, samples) / static_cast<std::size_t>(std::max(1, inputs.arrangement.shares));
    const std::size_t value = recipe.data.pixel == "bfloat16" ? 2 : sizeof(float);
    const std::string too_much = too_far_ahead(recipe.data.ahead, share * image.elements() * value,
                                               inputs.world.local_size(), available_memory());
    if (!too_much.empty()) inputs.world.log().warning(too_much);
  }
  return open_samples(inputs.world, inputs.data.training,
                      {recipe, *inputs.task, inputs.arrangement, inputs.compute.layout(),
                       least_share, inputs.compute.batch_memory()});
}

}  // namespace convoy::train
