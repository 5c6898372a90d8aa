#include "train/strategies/partitioned/needs.h"

#include <algorithm>
#include <cstdio>
#include <variant>
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

// Whether a reducer lets backward compute this gradient in its bucket (ReducerOptions).
bool computed_in_bucket(const Recipe& recipe, const model::Node& node, const Slice& held,
                        double bytes) {
  constexpr double kLeast = 1 << 20;
  return std::holds_alternative<model::layer::Linear>(node.kind) && held.size.size() == 2 &&
         bytes >= kLeast && recipe.strategy_options.flag("compute_in_buckets");
}

// Values of gradients that are copied into buckets.
double copied_gradients(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, std::size_t partition, int replicas) {
  double values = 0;
  for (const model::PartitionedNode& place : plan.nodes) {
    const model::Node& node = plan.node_of(blueprint, place);
    const std::vector<model::TensorInfo> tensors = tensors_of(node);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const bool summed = replicas > 1 || (plan.partitions > 1 && !place.divides(t));
      if (tensors[t].buffer || !summed) continue;
      const Slice& held = place.tensors[partition][t];
      const auto own = static_cast<double>(held.elements());
      if (!computed_in_bucket(recipe, node, held, own * element_of(recipe))) values += own;
    }
  }
  return values;
}

PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, const model::PartitionLoad& load,
                        std::size_t partition, const ReplicaShare& share) {
  const double element = element_of(recipe);
  const auto parameters = static_cast<double>(load.parameters);
  PartitionNeeds needs;
  needs.parameters = element * (parameters + static_cast<double>(load.buffers));
  needs.gradients =
      element * (parameters + copied_gradients(recipe, blueprint, plan, partition, share.replicas));
  if (is_built_in_optimizer(recipe.optimizer.name)) {
    const auto slots = static_cast<double>(optim::slots(optimizer_rule(recipe.optimizer)).size());
    needs.optimizer = element * parameters * slots;
  }
  needs.activations = element * (load.activation_values + load.message_values);
  needs.samples = static_cast<double>(share.samples);
  needs.copies = model::local_copies(blueprint, plan, static_cast<int>(partition), share.samples,
                                     static_cast<std::int64_t>(element));
  return needs;
}

std::vector<PartitionNeeds> all_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                                      const model::PartitionPlan& plan, const ReplicaShare& share) {
  const auto loads = loads_of(blueprint, plan);
  std::vector<PartitionNeeds> all;
  for (std::size_t p = 0; p < loads.size(); ++p)
    all.push_back(needs_of(recipe, blueprint, plan, loads[p], p, share));
  return all;
}

double most(const std::vector<PartitionNeeds>& all, double (*bytes)(const PartitionNeeds&)) {
  double largest = 0;
  for (const PartitionNeeds& needs : all) largest = std::max(largest, bytes(needs));
  return largest;
}

double all_of(const PartitionNeeds& needs) { return needs.all(); }

std::vector<model::Shape> inputs_of(const model::PartitionPlan& plan) {
  std::vector<model::Shape> inputs;
  for (const model::PartitionedValue& value : plan.values) {
    if (value.input) inputs.push_back(value.shape);
  }
  return inputs;
}

}  // namespace

PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, int partition,
                        const ReplicaShare& share) {
  return all_needs(recipe, blueprint, plan, share)[static_cast<std::size_t>(partition)];
}

int enough_partitions(const Recipe& recipe, const model::Blueprint& blueprint,
                      const model::PartitionPlan& plan, const ReplicaShare& share, double memory) {
  for (int partitions = 2 * plan.partitions; partitions <= kMostPartitions; partitions *= 2) {
    Recipe larger = recipe;
    larger.grid.partitions = partitions;
    for (PlacementRule& rule : larger.placement.layers) rule.parts.clear();  // are for fewer
    const model::PartitionRules rules = rules_by_hand(larger, blueprint);
    const model::PartitionPlan more = plan_partition(blueprint, inputs_of(plan), rules);
    if (most(all_needs(larger, blueprint, more, share), all_of) <= memory) return partitions;
  }
  return 0;
}

std::string describe_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                           const model::PartitionPlan& plan, const ReplicaShare& share) {
  std::int64_t largest = 0;
  for (const model::PartitionLoad& load : loads_of(blueprint, plan))
    largest = std::max(largest, load.parameters);
  const std::vector<PartitionNeeds> needs = all_needs(recipe, blueprint, plan, share);
  const auto bytes = [&](double (*of)(const PartitionNeeds&)) {
    return bytes_text(most(needs, of));
  };
  std::string text = "partitioned over " + std::to_string(plan.partitions) +
                     (plan.partitions == 1 ? " rank: it holds " : " ranks: one holds up to ") +
                     millions(static_cast<double>(largest)) + " of " +
                     millions(static_cast<double>(cost_of(blueprint, inputs_of(plan)).parameters)) +
                     " parameters (" + bytes([](const PartitionNeeds& n) { return n.parameters; }) +
                     "; training takes " +
                     bytes([](const PartitionNeeds& n) { return n.training(); }) + " more, and " +
                     bytes([](const PartitionNeeds& n) { return n.activations; }) +
                     " for each sample of a replica's batch";
  if (share.samples > 0) {
    text += ": " + bytes(all_of) + " with " + std::to_string(share.samples) +
            (share.samples == 1 ? " sample" : " samples");
    const std::uint64_t now = resident_memory();
    if (now > 0)
      text += ", which the process takes beside the " + format_bytes(now) + " that it has";
  }
  return text + ")";
}

void check_needs(const comm::World& world, const Recipe& recipe, const model::Blueprint& blueprint,
                 const model::PartitionPlan& plan, const ReplicaShare& share, double wanted,
                 const std::string& what) {
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
  const int enough = enough_partitions(recipe, blueprint, plan, share, left[worst]);
  throw UsageError("rank " + std::to_string(worst) + " needs " + bytes_text(needs[worst]) +
                   " for " + what + " of " + blueprint.name + " in " +
                   std::to_string(plan.partitions) +
                   (plan.partitions == 1 ? " partition" : " partitions") + ", and can have " +
                   bytes_text(left[worst]) +
                   (enough > 0 ? ": let grid.partitions be " + std::to_string(enough)
                               : ": no number of partitions would do"));
}

}  // namespace convoy::train
