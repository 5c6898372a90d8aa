#include "cli/plan/network.h"

#include <utility>

#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/train/compute.h"
#include "convoy/train/planning.h"
#include "train/samples/renumbered.h"
#include "train/setup.h"

namespace convoy::cli {

model::Blueprint network_of(const train::Recipe& recipe, const train::Registry& registry) {
  const train::TaskFacts facts;
  const auto side = [&recipe](const char* key) {
    return static_cast<int>(recipe.data.train.integer(key));
  };
  const std::int64_t classes =
      recipe.model.classes > 0 ? recipe.model.classes : recipe.data.train.integer("classes");
  auto network = registry.blueprint(recipe.model.name,
                                    {.classes = classes,
                                     .image = {side("channels"), side("height"), side("width")},
                                     .options = recipe.model.options,
                                     .facts = facts,
                                     .seed = static_cast<std::uint64_t>(recipe.seed)});
  if (!network)
    throw UsageError("the model '" + recipe.model.name +
                     "' is code: nothing is known of its layers");
  return *network;
}

std::vector<model::Shape> inputs_of(const train::Recipe& recipe) {
  const train::Options& data = recipe.data.train;
  return {{data.integer("channels"), data.integer("height"), data.integer("width")}};
}

SeenNetwork see_network(const train::Recipe& recipe, const train::Registry& registry) {
  const std::shared_ptr<train::Task> task = registry.make_task(recipe);
  train::DataSets data;
  data.training = registry.open_data(recipe.data.reader, recipe.data.train);
  if (recipe.data.has_validation) {
    data.validation = train::renumbered(
        registry.open_data(recipe.data.reader, recipe.data.validation), data.training->classes());
  }
  train::look_at(data, recipe, *task);
  const train::Compute compute(recipe);
  const auto blueprint = train::RecipeNetwork(registry, recipe, *task, compute).blueprint();
  if (!blueprint) {
    throw UsageError("the model '" + recipe.model.name +
                     "' is code: nothing is known of its layers");
  }
  SeenNetwork seen{*blueprint, blueprint->inputs, task, data.training};
  const train::TaskBatch blank = task->blank(1, compute);
  if (blank.tensors.empty()) return seen;
  seen.inputs.clear();
  for (const torch::Tensor& input : task->inputs(blank)) {
    seen.inputs.push_back(input.sizes().slice(1).vec());
    seen.a_row_each = seen.a_row_each && input.size(0) == 1;
  }
  return seen;
}

std::optional<double> gradient_bytes_of(const train::Recipe& recipe,
                                        const train::Registry& registry) {
  train::PlacementProblem problem;
  try {
    SeenNetwork seen = see_network(recipe, registry);
    problem.network = std::move(seen.network);
    problem.inputs = std::move(seen.inputs);
  } catch (const UsageError&) {
    return std::nullopt;  // it is code: the data was opened before
  }
  problem.recipe = recipe;
  problem.optimizer = registry.optimizer(recipe.optimizer.name);
  const plan::TrainingCost cost = train::training_cost(problem);
  double bytes = 0;
  for (const plan::LayerCost& layer : cost.layers) {
    for (const plan::GradientSize& gradient : layer.gradients) bytes += gradient.bytes;
  }
  return bytes * cost.sent_part;
}

bool is_recipe_file(const std::string& what) { return what.ends_with(".toml"); }

std::string names_of_networks() {
  std::string names;
  for (const std::string& name : model::model_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace convoy::cli
