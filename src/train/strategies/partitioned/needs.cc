#include "train/strategies/partitioned/needs.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/optim/rule.h"
#include "convoy/train/optimizer_rule.h"
#include "train/strategies/partitioned/options.h"

namespace convoy::train {
namespace {

constexpr int kMostPartitions = 256;

double element_of(const Recipe& recipe) { return recipe.precision == "float64" ? 8 : 4; }

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string millions(double count) {
  char text[32];
  std::snprintf(text, sizeof text, count < 1e6 ? "%.0f" : "%.1f M",
                count < 1e6 ? count : count / 1e6);
  return text;
}

PartitionNeeds needs_of(const Recipe& recipe, const model::PartitionLoad& load) {
  const double element = element_of(recipe);
  const auto parameters = static_cast<double>(load.parameters);
  PartitionNeeds needs;
  needs.parameters = element * (parameters + static_cast<double>(load.buffers));
  needs.gradients = element * parameters;
  if (is_built_in_optimizer(recipe.optimizer.name)) {
    const auto slots = static_cast<double>(optim::slots(optimizer_rule(recipe.optimizer)).size());
    needs.optimizer = element * parameters * slots;
  }
  needs.activations = element * (load.activation_values + load.message_values);
  return needs;
}

double most(const Recipe& recipe, const std::vector<model::PartitionLoad>& loads,
            double (*bytes)(const PartitionNeeds&)) {
  double largest = 0;
  for (const model::PartitionLoad& load : loads)
    largest = std::max(largest, bytes(needs_of(recipe, load)));
  return largest;
}

double all_of(const PartitionNeeds& needs) { return needs.parameters + needs.training(); }

}  // namespace

PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, int partition) {
  return needs_of(recipe, loads_of(blueprint, plan)[static_cast<std::size_t>(partition)]);
}

int enough_partitions(const Recipe& recipe, const model::Blueprint& blueprint,
                      const model::PartitionPlan& plan, double memory) {
  std::vector<model::Shape> inputs;
  for (const model::PartitionedValue& value : plan.values) {
    if (value.input) inputs.push_back(value.shape);
  }
  for (int partitions = 2 * plan.partitions; partitions <= kMostPartitions; partitions *= 2) {
    Recipe larger = recipe;
    larger.grid.partitions = partitions;
    for (PlacementRule& rule : larger.placement.layers) rule.parts.clear();  // are for fewer
    const model::PartitionRules rules = rules_by_hand(larger, blueprint);
    const auto loads = loads_of(blueprint, plan_partition(blueprint, inputs, rules));
    if (most(recipe, loads, all_of) <= memory) return partitions;
  }
  return 0;
}

std::string describe_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                           const model::PartitionPlan& plan) {
  const auto loads = loads_of(blueprint, plan);
  std::int64_t largest = 0;
  for (const model::PartitionLoad& load : loads) largest = std::max(largest, load.parameters);
  std::vector<model::Shape> inputs;
  for (const model::PartitionedValue& value : plan.values) {
    if (value.input) inputs.push_back(value.shape);
  }
  const auto bytes = [&](double (*of)(const PartitionNeeds&)) {
    return bytes_text(most(recipe, loads, of));
  };
  return "partitioned over " + std::to_string(plan.partitions) +
         (plan.partitions == 1 ? " rank: it holds " : " ranks: one holds up to ") +
         millions(static_cast<double>(largest)) + " of " +
         millions(static_cast<double>(cost_of(blueprint, inputs).parameters)) + " parameters (" +
         bytes([](const PartitionNeeds& n) { return n.parameters; }) + "; training takes " +
         bytes([](const PartitionNeeds& n) { return n.training(); }) + " more, and " +
         bytes([](const PartitionNeeds& n) { return n.activations; }) +
         " for each sample of a replica's batch)";
}

void check_needs(const comm::World& world, const Recipe& recipe, const model::Blueprint& blueprint,
                 const model::PartitionPlan& plan, double wanted, const std::string& what) {
  if (recipe.device != "cpu") return;
  const std::vector<double> needs = world.communicator().gather(wanted);
  // What a rank can have: by its own limits, and of its host what the others there leave.
  double others = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != world.rank() && world.host(rank) == world.host(world.rank()))
      others += needs[static_cast<std::size_t>(rank)];
  }
  const std::vector<double> left = world.communicator().gather(std::max(
      0.0,
      std::min({static_cast<double>(available_memory()), static_cast<double>(address_space_left()),
                static_cast<double>(host_memory()) - others})));
  // The first rank that lacks most, and its numbers.
  std::size_t worst = 0;
  const auto lacks = [&](std::size_t rank) { return needs[rank] - left[rank]; };
  for (std::size_t rank = 1; rank < needs.size(); ++rank) {
    if (lacks(rank) > lacks(worst)) worst = rank;
  }
  if (lacks(worst) <= 0) return;
  const int enough = enough_partitions(recipe, blueprint, plan, left[worst]);
  throw UsageError("rank " + std::to_string(worst) + " needs " + bytes_text(needs[worst]) +
                   " for " + what + " of " + blueprint.name + " in " +
                   std::to_string(plan.partitions) +
                   (plan.partitions == 1 ? " partition" : " partitions") + ", and can have " +
                   bytes_text(left[worst]) +
                   (enough > 0 ? ": let grid.partitions be " + std::to_string(enough)
                               : ": no number of partitions would do"));
}

}  // namespace convoy::train
