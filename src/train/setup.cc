#include "train/setup.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "convoy/data/remarks.h"
#include "convoy/model/dropout.h"
#include "convoy/train/compute.h"
#include "model/execution/module_tree.h"
#include "model/keep_modes.h"
#include "train/checkpoint/preparation.h"
#include "train/checkpoint/weights.h"
#include "train/evaluation_mode.h"
#include "train/facts.h"
#include "train/rank_work.h"
#include "train/same_everywhere.h"
#include "train/samples/random_part.h"
#include "train/samples/renumbered.h"
#include "train/tasks/check_labels.h"

namespace convoy::train {

namespace {

void add_remarks(const data::Dataset& dataset, std::vector<std::string>& remarks) {
  const auto* const some = dynamic_cast<const data::Remarks*>(&dataset);
  if (some == nullptr) return;
  const std::vector<std::string> lines = some->remarks();
  remarks.insert(remarks.end(), lines.begin(), lines.end());
}

// A file that is listed twice is taken twice, which may be meant.
void add_doubles(const Options& options, const std::string& table,
                 std::vector<std::string>& remarks) {
  for (const Option& option : options.specification()) {
    if (option.kind != Option::Kind::path) continue;
    const auto* const paths = std::get_if<std::vector<std::string>>(&options.value(option.key));
    if (paths == nullptr) continue;
    std::vector<std::string> sorted = *paths;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice == sorted.end()) continue;
    remarks.push_back(table + "." + option.key + " has " + *twice +
                      " more than once: its samples count as often");
  }
}

// "data.validation has nothing of 3 of the 10 classes of data.train: 'b', 'c', 'd'".
std::string describe_missing(const std::vector<std::string>& missing, std::size_t all) {
  constexpr std::size_t kNamed = 5;
  std::string text = "data.validation has nothing of " + std::to_string(missing.size()) +
                     " of the " + std::to_string(all) + " classes of data.train:";
  for (std::size_t i = 0; i < std::min(missing.size(), kNamed); ++i)
    text += (i == 0 ? " '" : ", '") + missing[i] + "'";
  return text + (missing.size() > kNamed ? ", ..." : "");
}

}  // namespace

DataSets open_data(const comm::Communicator& communicator, const Registry& registry,
                   const DataRecipe& recipe) {
  DataSets data;
  data::CommPeers peers(communicator);
  data.training = registry.open_data(recipe.reader, recipe.train, peers);
  check_same_data(communicator, *data.training, "data.train");
  if (data.training->size() == 0) throw UsageError("data.train holds no samples");
  add_remarks(*data.training, data.remarks);
  add_doubles(recipe.train, "data.train", data.remarks);
  if (data.training->classes().size() == 1 && data.training->pictures() &&
      !data.training->label_lists()) {
    data.remarks.push_back(
        "data.train has one class, '" + data.training->classes().front() +
        "', so that there is nothing to tell apart: is its folder the right one?");
  }
  if (!recipe.has_validation) return data;
  data.validation = registry.open_data(recipe.reader, recipe.validation, peers);
  check_same_data(communicator, *data.validation, "data.validation");
  add_remarks(*data.validation, data.remarks);
  add_doubles(recipe.validation, "data.validation", data.remarks);
  const std::vector<std::string>& classes = data.training->classes();
  const std::vector<std::string> missing = missing_classes(*data.validation, classes);
  data.validation = renumbered(data.validation, classes);
  if (!missing.empty() && data.validation->classes() == classes)
    data.remarks.push_back(describe_missing(missing, classes.size()));
  return data;
}

void look_at(const DataSets& data, const Recipe& recipe, Task& task) {
  check_labels(task, recipe.task.name, *data.training, "data.train");
  if (data.validation) check_labels(task, recipe.task.name, *data.validation, "data.validation");
  task.look(*data.training, data.validation.get());
}

std::shared_ptr<const data::Dataset> evaluated_part(const DataSets& data, const Recipe& recipe) {
  const bool training = recipe.evaluation.from == "training";
  const std::shared_ptr<const data::Dataset> all = training ? data.training : data.validation;
  if (all == nullptr || recipe.evaluation.fraction == 1) return all;
  return std::make_shared<RandomPart>(all, recipe.evaluation.fraction,
                                      number_of(recipe.evaluation.from));
}

std::shared_ptr<const data::Dataset> evaluated_training(const DataSets& data,
                                                        const Recipe& recipe) {
  Recipe same = recipe;
  same.evaluation.from = "training";
  same.evaluation.fraction = recipe.evaluation.training_fraction;
  return same.evaluation.fraction > 0 ? evaluated_part(data, same) : nullptr;
}

Origin find_origin(const comm::Communicator& communicator, const std::string& which,
                   const std::string& folder) {
  const std::string told = on_rank_0(communicator, [&] {
    const Origin origin = open_origin(which, folder);
    return to_json(origin.manifest) + origin.path;
  });
  constexpr std::string_view kEnd = "\n}\n";  // of the manifest; paths have no such line
  const std::size_t end = told.find(kEnd) + kEnd.size();
  Origin origin;
  origin.path = told.substr(end);
  origin.manifest = manifest_from_json(told.substr(0, end), origin.path);
  return origin;
}

namespace {

// Tries the network on blank samples. The message of what it throws, or nothing.
std::string try_out(model::Network& network, const TaskBatch& blank, const Task& task) {
  try {
    network.run(task.inputs(blank));
    return "";
  } catch (const c10::OutOfMemoryError&) {
    throw;  // no mistake in the network
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return text.substr(0, text.find('\n'));
  }
}

}  // namespace

ModelRequest RecipeNetwork::request() const {
  const TaskFacts& facts = task_.facts();
  return {.classes = task_.outputs(),
          .image = image_of(facts),
          .options = recipe_.model.options,
          .facts = facts,
          .seed = seed()};
}

std::optional<model::Blueprint> RecipeNetwork::described() const {
  return registry_.blueprint(recipe_.model.name, request());
}

std::optional<model::Blueprint> RecipeNetwork::blueprint() const {
  std::optional<model::Blueprint> data = described();
  if (!data) {
    // What a plugin makes as a network may be made of data all the same: a list of modules.
    torch::manual_seed(seed());
    const auto network = registry_.make_model(recipe_.model.name, request());
    if (network->blueprint() != nullptr) data = *network->blueprint();
  }
  if (data) model::check_apart(*data);
  return data;
}

std::shared_ptr<model::Network> RecipeNetwork::whole() const {
  torch::manual_seed(seed());  // for networks that are code
  const auto network = registry_.make_model(recipe_.model.name, request());
  model::name_layers(*network);
  compute_.place(*network);
  check_takes(*network);
  return network;
}

void RecipeNetwork::check_takes(model::Network& network) const {
  const TaskBatch blank = task_.blank(1, compute_);
  if (blank.tensors.empty()) return;
  const torch::NoGradGuard no_grad;
  std::string problem;
  {
    const EvaluationMode mode(network);
    problem = try_out(network, blank, task_);
  }
  if (problem.empty()) return;
  std::string shapes;
  for (const torch::Tensor& input : task_.inputs(blank)) {
    std::string shape;
    for (const std::int64_t extent : input.sizes().slice(1))
      shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
    shapes += (shapes.empty() ? "" : ", ") + shape;
  }
  const auto [c, h, w] = network.image_shape();
  throw UsageError("the model '" + recipe_.model.name + "' can't take " + task_.unit() + " of " +
                   shapes + "; it is made for " + std::to_string(c) + " x " + std::to_string(h) +
                   " x " + std::to_string(w) +
                   " (see data.size and data.channels). LibTorch says: " + problem);
}

std::size_t least_samples(model::Network& network, const Task& task, const Compute& compute) {
  if (task.blank(1, compute).tensors.empty()) return 1;
  const torch::NoGradGuard no_grad;
  const model::KeepModes modes(network);
  std::vector<std::pair<torch::Tensor, torch::Tensor>> before;  // buffers, and what was in them
  for (const torch::Tensor& buffer : network.buffers()) {
    if (buffer.defined()) before.emplace_back(buffer, buffer.clone());
  }
  auto random = at::detail::getDefaultCPUGenerator();
  const torch::Tensor random_state = random.get_state();
  if (!network.is_training()) network.train();
  const auto takes = [&](std::int64_t samples) {
    return try_out(network, task.blank(samples, compute), task).empty();
  };
  const std::size_t least = !takes(1) && takes(2) ? 2 : 1;
  random.set_state(random_state);
  for (auto& [buffer, values] : before) buffer.copy_(values);
  return least;
}

void load_weights(const comm::World& world, const Recipe& recipe, const Task& task,
                  Strategy& strategy) {
  const std::string& path = recipe.model.weights;
  const Weights found =
      read_weights(world.communicator(), strategy.module(), path, recipe.model.partial,
                   [&strategy](const Slice& whole) { return strategy.wanted(whole); });
  strategy.load(found.state, path);
  if (world.rank() != 0) return;
  world.log().info(path + ": " + describe(found.report));
  const std::string other = task.raw() ? "" : other_preparation(found.metadata, recipe.data);
  if (!other.empty()) world.log().warning(path + ": " + other);
}

Manifest manifest_of(const Recipe& recipe, int world, const data::Dataset& training,
                     const TaskFacts& facts) {
  Manifest manifest;
  manifest.model = recipe.model.name;
  manifest.strategy = recipe.strategy;
  manifest.recipe = print_recipe(recipe, false);
  note(facts, manifest);
  manifest.world = world;
  manifest.samples = training.size();
  manifest.data_fingerprint = training.fingerprint();
  return manifest;
}

CheckpointOptions checkpoint_options(const Recipe& recipe, const comm::World& world) {
  CheckpointOptions options;
  options.retention.last = static_cast<int>(recipe.checkpoint.keep);
  options.retention.best = recipe.checkpoint.keep_best;
  options.asynchronous = recipe.checkpoint.asynchronous;
  if (!recipe.checkpoint.memory.empty()) options.memory = parse_bytes(recipe.checkpoint.memory);
  options.ranks_of_host = world.local_size();
  return options;
}

}  // namespace convoy::train
