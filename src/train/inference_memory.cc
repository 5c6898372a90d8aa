#include "train/inference_memory.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/train/compute.h"
#include "convoy/train/server_job.h"
#include "train/strategies/partitioned/needs.h"

namespace convoy::train {
namespace {

// Divided as the user's recipe has it, or as "partitioned" does it where the recipe says nothing.
Recipe divided_recipe(const Recipe& trained, const Vocabulary& vocabulary) {
  if (trained.strategy == "partitioned") return trained;
  Recipe divided = trained;
  const bool around = is_server_job(trained.strategy);
  if (around) {
    // One partition has no keys of "partitioned".
    divided.grid.partitions = std::max<std::int64_t>(2, divided.grid.partitions);
    divided = replica_recipe(divided);
  }
  divided.strategy = "partitioned";
  if (!divided.strategy_options.has("balance"))
    divided.strategy_options = Options(vocabulary.strategies.at("partitioned"));
  if (!around) divided.placement = {};
  return divided;
}

std::vector<model::Shape> input_shapes_of(const RecipeNetwork& network,
                                          const model::Blueprint& blueprint) {
  const TaskBatch blank = network.task().blank(1, network.compute());
  if (blank.tensors.empty()) return blueprint.inputs;
  std::vector<model::Shape> shapes;
  for (const torch::Tensor& input : network.task().inputs(blank))
    shapes.push_back(input.sizes().slice(1).vec());
  return shapes;
}

}  // namespace

void check_whole_fits(const comm::World& world, const Registry& registry,
                      const RecipeNetwork& network, const Recipe& trained) {
  const Recipe& recipe = network.recipe();
  const bool whole =
      recipe.strategy == "sync" || (is_server_job(recipe.strategy) && recipe.grid.partitions == 1);
  const Vocabulary& vocabulary = registry.vocabulary();
  if (!whole || recipe.device != "cpu" || !vocabulary.strategies.contains("partitioned")) return;
  const std::optional<model::Blueprint> blueprint = network.described();
  if (!blueprint) return;
  std::optional<model::PartitionPlan> plan;
  try {
    plan = plan_partition(*blueprint, input_shapes_of(network, *blueprint), {.partitions = 1});
  } catch (const UsageError&) {  // said better where the network is built
    return;
  }
  ReplicaShare share{.replicas = world.size()};
  if (!network.task().raw())
    share.samples = (evaluation_batch(recipe) + share.replicas - 1) / share.replicas;
  check_needs(world, divided_recipe(trained, vocabulary), trained, *blueprint, *plan, share, 0,
              NetworkUse::inference);
}

}  // namespace convoy::train
