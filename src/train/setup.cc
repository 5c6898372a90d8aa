#include "train/setup.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "train/compute/compute.h"
#include "train/rank_work.h"
#include "train/same_everywhere.h"

namespace convoy::train {

DataSets open_data(const comm::Communicator& communicator, const Registry& registry,
                   const DataRecipe& recipe) {
  DataSets data;
  data::CommPeers peers(communicator);
  data.training = registry.open_data(recipe.reader, recipe.train, peers);
  check_same_data(communicator, *data.training, "data.train");
  if (data.training->size() == 0) throw UsageError("data.train holds no samples");
  if (!recipe.has_validation) return data;
  data.validation = registry.open_data(recipe.reader, recipe.validation, peers);
  check_same_data(communicator, *data.validation, "data.validation");
  const auto& train = data.training->classes();
  const auto& validation = data.validation->classes();
  if (train == validation) return data;
  // Labels are numbers: different classes would be compared with each other.
  for (std::size_t i = 0; i < std::max(train.size(), validation.size()); ++i) {
    const std::string a = i < train.size() ? "'" + train[i] + "'" : "missing";
    const std::string b = i < validation.size() ? "'" + validation[i] + "'" : "missing";
    if (a == b) continue;
    throw UsageError("data.train and data.validation have different classes: number " +
                     std::to_string(i) + " is " + a + " in one, " + b + " in the other");
  }
  return data;
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

std::shared_ptr<model::Network> make_network(const Registry& registry, const Recipe& recipe,
                                             const data::Shape& shape, std::int64_t classes) {
  if (recipe.model.classes > 0 && recipe.model.classes < classes) {
    throw UsageError("model.classes is " + std::to_string(recipe.model.classes) +
                     ", but the data has " + std::to_string(classes) + " classes");
  }
  torch::manual_seed(static_cast<std::uint64_t>(recipe.seed));
  const auto network = registry.make_model(
      recipe.model.name,
      {recipe.model.classes > 0 ? recipe.model.classes : classes, shape, recipe.model.options});
  const Compute compute(recipe);
  compute.place(*network);
  compute.check_takes(*network, shape, recipe.model.name);
  return network;
}

Manifest manifest_of(const Recipe& recipe, int world, const data::Dataset& training,
                     const data::Shape& image) {
  Manifest manifest;
  manifest.model = recipe.model.name;
  manifest.strategy = recipe.strategy;
  manifest.recipe = print_recipe(recipe, false);
  manifest.classes = training.classes();
  manifest.world = world;
  manifest.samples = training.size();
  manifest.data_fingerprint = training.fingerprint();
  manifest.numbers = {{"input.channels", image.channels},
                      {"input.height", image.height},
                      {"input.width", image.width}};
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
