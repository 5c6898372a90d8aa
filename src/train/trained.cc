#include "convoy/train/trained.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/data/comm_peers.h"
#include "convoy/train/state.h"
#include "convoy/train/threads.h"
#include "train/checkpoint/open_checkpoint.h"
#include "train/compute/gpu.h"
#include "train/facts.h"
#include "train/inference_memory.h"
#include "train/predict.h"
#include "train/recipe/automatic.h"
#include "train/recipe/former.h"
#include "train/run/arrange.h"
#include "train/samples/renumbered.h"
#include "train/setup.h"
#include "train/strategies/devices/options.h"
#include "train/tasks/check_labels.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// The data that a network was trained on may be gone, and isn't needed.
Recipe parse(Registry& registry, const RecipeText& text, const std::vector<std::string>& overrides,
             Files files) {
  registry.load_plugins(plugins_of(text, overrides));
  const Recipe recipe = parse_recipe(text, overrides, registry.vocabulary(), files);
  // What was trained is whole with sync, whatever the planner would choose to train it.
  return recipe.strategy == kAutomatic ? candidate_of(recipe, "sync") : recipe;
}

std::string text_of(const data::Shape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

// With labels as the data has them that the network was trained on: others may lack classes.
std::shared_ptr<const data::Dataset> as_trained(const std::shared_ptr<const data::Dataset>& dataset,
                                                const TaskFacts& facts) {
  // Where the recipe makes classes of labels, it does so by the numbers that this data has.
  const auto classes = facts.lists.find("classes");
  if (classes == facts.lists.end() || facts.lists.contains("labels")) return dataset;
  return renumbered(dataset, classes->second);
}

// A run may have been divided among ranks. One alone takes the whole network, as an export has it.
TrainedSource for_ranks(const comm::World& world, const Registry& registry, TrainedSource source) {
  if (world.size() == 1) source.recipe = on_one_rank(source.recipe, registry.vocabulary());
  return source;
}

// Says what would fit where the grid of the training doesn't.
Arrangement arrange_trained(const comm::World& world, const Recipe& recipe, Strategy& strategy) {
  try {
    return arrange(world, recipe, strategy);
  } catch (const UsageError& error) {
    const std::int64_t ranks =
        recipe.grid.partitions * std::max<std::int64_t>(recipe.grid.replicas, 1);
    if (ranks <= 1 || world.size() % recipe.grid.partitions == 0) throw;
    throw UsageError(error.what() + ("; a network that was trained so is used on one rank, or on " +
                                     std::to_string(ranks)));
  }
}

}  // namespace

TrainedSource find_trained(Registry& registry, const std::string& path, Which which,
                           const std::vector<std::string>& overrides) {
  TrainedSource source;
  if (fs::path(path).extension() == ".toml") {
    source.recipe = parse(registry, read_recipe_file(path), overrides, Files::must_exist);
    if (source.recipe.model.weights.empty()) {
      throw UsageError(path + " names no weights; add --set model.weights=FILE, or name a run");
    }
    source.path = source.recipe.model.weights;
    return source;
  }
  FoundCheckpoint found = open_checkpoint_in(path, which);
  source.path = found.path;
  source.manifest = std::move(found.manifest);
  source.recipe = parse(registry, {of_today(source.manifest->recipe), source.path, "/"}, overrides,
                        Files::may_be_missing);
  return source;
}

Trained::Trained(const comm::World& world, const Registry& registry,
                 const TrainedSource& source) try
    : world_(world),
      source_(for_ranks(world, registry, source)),
      compute_(source_.recipe, first_gpu_of_rank(source_.recipe, world.local_rank())),
      task_(registry.make_task(source_.recipe)),
      strategy_(registry.make_strategy(source_.recipe.strategy)) {
  const Recipe& r = recipe();
  set_threads(world, static_cast<int>(r.threads));
  arrangement_ = arrange_trained(world, r, *strategy_);
  if (source_.manifest) {
    task_->restore(facts_of(*source_.manifest));
  } else {
    data::CommPeers peers(world.communicator());
    const auto dataset = registry.open_data(
        r.data.reader, r.data.has_validation ? r.data.validation : r.data.train, peers);
    check_labels(*task_, r.task.name, *dataset, "the data");
    task_->look(*dataset, nullptr);
  }
  const RecipeNetwork network(registry, r, *task_, compute_, /*trains=*/false);
  check_whole_fits(world, registry, network, source.recipe);
  strategy_->build(network);
  if (source_.manifest) {
    const auto wanted = [this](const Slice& whole) { return strategy_->wanted(whole); };
    strategy_->load(read_model(world.communicator(), source_.path, *source_.manifest, wanted,
                               strategy_->module()),
                    source_.path);
  } else {
    load_weights(world, r, *task_, *strategy_);
  }
  strategy_->module().eval();
} catch (const c10::OutOfMemoryError& error) {
  const Recipe used = for_ranks(world, registry, source).recipe;
  throw_out_of_memory(world, used, error, first_gpu_of_rank(used, world.local_rank()));
}

Evaluation Trained::evaluate(const std::shared_ptr<const data::Dataset>& dataset,
                             const EvaluationOptions& options) try {
  const std::string what = "what it is evaluated on";
  check_labels(*task_, recipe().task.name, *dataset, what);
  const auto counted = as_trained(dataset, task_->facts());
  task_->check(*counted, what);
  check_takes(*counted, what);
  return train::evaluate(evaluated(), counted, options);
} catch (const c10::OutOfMemoryError& error) {
  throw_out_of_memory(world_, recipe(), error, first_gpu_of_rank(recipe(), world_.local_rank()));
}

Evaluated Trained::evaluated() {
  return {world_.communicator(), recipe(), *task_, compute_, arrangement_, *strategy_};
}

// Some networks take images of any size, others of that which they were trained on.
void Trained::check_takes(const data::Dataset& dataset, const std::string& what) {
  const data::Shape trained = image_of(task_->facts());
  if (task_->raw() || trained.elements() == 0) return;
  const DataRecipe& data = recipe().data;
  const data::Shape shape =
      data::output_shape(dataset, evaluation_transform(data, trained), on_bad(data));
  if (shape == trained) return;
  const torch::NoGradGuard no_grad;
  const Autocast autocast = compute_.autocast();
  try {
    strategy_->forward({compute_.blank(shape)});
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    throw UsageError(
        what + " has " + task_->unit() + " of " + text_of(shape) + "; the network was trained on " +
        text_of(trained) +
        ", and can't take others. LibTorch says: " + reason.substr(0, reason.find('\n')));
  }
}

std::vector<Answer> Trained::predict(const std::vector<std::string>& inputs, int most) try {
  const torch::NoGradGuard no_grad;
  return task_->predict(inputs, most, compute_, [this](const TensorList& tensors) {
    const Autocast autocast = compute_.autocast();
    return strategy_->forward(tensors);
  });
} catch (const c10::OutOfMemoryError& error) {
  throw_out_of_memory(world_, recipe(), error, first_gpu_of_rank(recipe(), world_.local_rank()));
}

void Trained::predict(const std::shared_ptr<const data::Dataset>& dataset, int most,
                      const UseAnswers& use, const PredictionOptions& options) try {
  check_takes(*dataset, "what it is to answer");
  train::predict(evaluated(), dataset, most, use, options);
} catch (const c10::OutOfMemoryError& error) {
  throw_out_of_memory(world_, recipe(), error, first_gpu_of_rank(recipe(), world_.local_rank()));
}

}  // namespace convoy::train
