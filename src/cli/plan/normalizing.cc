#include "cli/plan/normalizing.h"

#include <torch/torch.h>

#include <algorithm>
#include <exception>

#include "convoy/model/modules.h"
#include "convoy/train/registry.h"
#include "train/setup.h"

namespace convoy::cli {
namespace {

bool has_local_statistics(train::Recipe recipe) {
  recipe.device = "cpu";
  train::Registry registry;
  registry.load_plugins(recipe.plugins);
  const auto task = registry.make_task(recipe);
  train::DataSets data;
  data.training = registry.open_data(recipe.data.reader, recipe.data.train);
  look_at(data, recipe, *task);
  const train::Compute compute(recipe);
  const auto network = train::RecipeNetwork(registry, recipe, *task, compute).whole();
  const auto modules = network->modules();
  return std::any_of(modules.begin(), modules.end(),
                     [](const auto& module) { return model::normalizes_over_batch(*module); });
}

}  // namespace

bool normalizes_shares(const train::Recipe& recipe) {
  const auto& keys = recipe.strategy_options.specification();
  const bool can_choose = std::any_of(
      keys.begin(), keys.end(), [](const train::Option& key) { return key.key == "batch_norm"; });
  if (!can_choose || recipe.strategy_options.text("batch_norm") != "local") return false;
  try {
    return has_local_statistics(recipe);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace convoy::cli
