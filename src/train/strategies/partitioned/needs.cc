#include "train/strategies/partitioned/needs.h"

#include <algorithm>
#include <cstdio>
#include <variant>
#include <vector>

#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/optim/rule.h"
#include "convoy/train/downpour.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/server_job.h"

namespace convoy::train {
namespace {

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

// Of one sample, the most that a layer reads and gives: what is there at the same time in any case.
double inferred_values(const model::PartitionPlan& plan, std::size_t partition) {
  double largest = 0;
  for (const model::PartitionedNode& place : plan.nodes) {
    auto values = static_cast<double>(plan.values[place.output].tiles[partition].elements());
    for (const auto& input : place.required)
      values += static_cast<double>(input[partition].elements());
    largest = std::max(largest, values);
  }
  return largest;
}

// Parameters of the layer of which the partition has most.
double largest_layer(const model::Blueprint& blueprint, const model::PartitionPlan& plan,
                     std::size_t partition) {
  double largest = 0;
  for (const model::PartitionedNode& place : plan.nodes) {
    const std::vector<model::TensorInfo> tensors = tensors_of(plan.node_of(blueprint, place));
    double own = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!tensors[t].buffer) own += static_cast<double>(place.tensors[partition][t].elements());
    }
    largest = std::max(largest, own);
  }
  return largest;
}

PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, const model::PartitionLoad& load,
                        std::size_t partition, const ReplicaShare& share) {
  const double element = element_of(recipe);
  const auto parameters = static_cast<double>(load.parameters);
  PartitionNeeds needs;
  needs.parameters = element * (parameters + static_cast<double>(load.buffers));
  needs.buckets = element * copied_gradients(recipe, blueprint, plan, partition, share.replicas);
  needs.gradients = element * parameters + needs.buckets;
  needs.layer = element * largest_layer(blueprint, plan, partition);
  if (share.copies >= 0) {
    needs.optimizer = needs.kept = element * parameters * share.copies;
  } else if (has_rule(recipe.optimizer)) {
    const auto slots = static_cast<double>(optim::slots(optimizer_rule(recipe.optimizer)).size());
    needs.optimizer = element * parameters * slots;
  }
  needs.activations = element * (load.activation_values + load.message_values);
  needs.inferred = element * inferred_values(plan, partition);
  needs.samples = static_cast<double>(share.samples);
  needs.copies = model::local_copies(blueprint, plan, static_cast<int>(partition), share.samples,
                                     static_cast<std::int64_t>(element));
  return needs;
}

double most(const std::vector<PartitionNeeds>& all, double (*bytes)(const PartitionNeeds&)) {
  double largest = 0;
  for (const PartitionNeeds& needs : all) largest = std::max(largest, bytes(needs));
  return largest;
}

double all_of(const PartitionNeeds& needs) { return needs.all(); }
double all_of_following(const PartitionNeeds& needs) { return needs.of(NetworkUse::following); }

}  // namespace

double PartitionNeeds::of(NetworkUse use) const {
  // Layers that are timed have gradients one after the other, of their parameters and of what they
  // read; that, what they give and its gradient are there at the same time.
  constexpr double kValuesOfTiming = 3;
  switch (use) {
    case NetworkUse::training:
      return all();
    case NetworkUse::inference:
      return parameters + samples * inferred + copies;
    case NetworkUse::following:
      return parameters + buckets + kept + samples * inferred + copies;
    case NetworkUse::timing:
      return parameters + layer + kValuesOfTiming * samples * inferred + copies;
  }
  return all();
}

std::vector<model::Shape> planned_inputs(const model::PartitionPlan& plan) {
  std::vector<model::Shape> inputs;
  for (const model::PartitionedValue& value : plan.values) {
    if (value.input) inputs.push_back(value.shape);
  }
  return inputs;
}

std::vector<PartitionNeeds> all_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                                      const model::PartitionPlan& plan, const ReplicaShare& share) {
  const auto loads = loads_of(blueprint, plan);
  std::vector<PartitionNeeds> all;
  for (std::size_t p = 0; p < loads.size(); ++p)
    all.push_back(needs_of(recipe, blueprint, plan, loads[p], p, share));
  return all;
}

PartitionNeeds needs_of(const Recipe& recipe, const model::Blueprint& blueprint,
                        const model::PartitionPlan& plan, int partition,
                        const ReplicaShare& share) {
  return all_needs(recipe, blueprint, plan, share)[static_cast<std::size_t>(partition)];
}

std::int64_t evaluation_batch(const Recipe& recipe) {
  return recipe.evaluation.batch > 0 ? recipe.evaluation.batch : recipe.training.batch;
}

// Blocks for what is gathered, pushed and fetched (docs/downpour.md); of other methods those that
// come and go.
int copies_around(const Recipe& job) {
  if (job.strategy == kDownpour) return downpour_of(job).local_steps == "again" ? 4 : 3;
  return is_server_job(job.strategy) ? 2 : -1;
}

std::string describe_needs(const Recipe& recipe, const model::Blueprint& blueprint,
                           const model::PartitionPlan& plan, const ReplicaShare& share,
                           NetworkUse use) {
  std::int64_t largest = 0;
  for (const model::PartitionLoad& load : loads_of(blueprint, plan))
    largest = std::max(largest, load.parameters);
  const std::vector<PartitionNeeds> needs = all_needs(recipe, blueprint, plan, share);
  const auto bytes = [&](double (*of)(const PartitionNeeds&)) {
    return bytes_text(most(needs, of));
  };
  std::string text =
      "partitioned over " + std::to_string(plan.partitions) +
      (plan.partitions == 1 ? " rank: it holds " : " ranks: one holds up to ") +
      millions(static_cast<double>(largest)) + " of " +
      millions(static_cast<double>(cost_of(blueprint, planned_inputs(plan)).parameters)) +
      " parameters (" + bytes([](const PartitionNeeds& n) { return n.parameters; });
  const bool trains = use == NetworkUse::training;
  if (trains) {
    text += "; training takes " + bytes([](const PartitionNeeds& n) { return n.training(); }) +
            " more, and " + bytes([](const PartitionNeeds& n) { return n.activations; }) +
            " for each sample of a replica's batch";
  } else {
    text += "; what others train is kept for checkpoints in " +
            bytes([](const PartitionNeeds& n) { return n.buckets + n.kept; }) +
            " more, and an evaluation takes " +
            bytes([](const PartitionNeeds& n) { return n.inferred; }) + " for each sample";
  }
  if (share.samples > 0) {
    text += ": " + bytes(trains ? all_of : all_of_following) + " with " +
            std::to_string(share.samples) + (share.samples == 1 ? " sample" : " samples");
    const std::uint64_t now = resident_memory();
    if (now > 0)
      text += ", which the process takes beside the " + format_bytes(now) + " that it has";
  }
  return text + ")";
}

}  // namespace convoy::train
