#include "train/strategies/partitioned/check_layers.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/model/dropout.h"
#include "convoy/model/modules.h"

namespace convoy::train {
namespace {

// Whether it takes so many rows in training, with what of it is in training mode. What trying it
// changed is as before.
bool takes(torch::nn::AnyModule module, const model::Shape& input, std::int64_t rows,
           at::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const torch::nn::Module& own = *module.ptr();
  std::vector<std::pair<torch::Tensor, torch::Tensor>> before;
  for (const torch::Tensor& buffer : own.buffers()) {
    type = buffer.is_floating_point() ? buffer.scalar_type() : type;
    before.emplace_back(buffer, buffer.clone());
  }
  for (const torch::Tensor& parameter : own.parameters()) type = parameter.scalar_type();
  auto random = at::detail::getDefaultCPUGenerator();
  const torch::Tensor random_state = random.get_state();
  model::Shape shape = input;
  shape.insert(shape.begin(), rows);
  bool taken = true;
  try {
    module.forward(torch::zeros(shape, type));
  } catch (const c10::Error&) {
    taken = false;
  }
  random.set_state(random_state);
  for (auto& [buffer, values] : before) buffer.copy_(values);
  return taken;
}

}  // namespace

void check_own_statistics(const model::Blueprint& blueprint, const model::PartitionPlan& plan) {
  if (plan.partitions == 1) return;
  for (const model::PartitionedNode& place : plan.nodes) {
    const model::Node& node = plan.node_of(blueprint, place);
    if (!std::holds_alternative<model::layer::Opaque>(node.kind) ||
        place.how == model::Division::whole)
      continue;
    for (const auto& part : node.module->module.ptr()->named_modules(node.name)) {
      const auto* dropout = part.value()->as<model::DropoutImpl>();
      if (dropout != nullptr && dropout->probability() > 0) {
        throw UsageError("layer '" + node.name + "' is divided by '" + text_of(place.how) +
                         "', and drops units by their place in the whole ('" + part.key() +
                         "'), which its parts don't know: let it be \"whole\" in "
                         "[[placement.layers]], or make the dropout a layer of its own");
      }
      if (!model::normalizes_over_batch(*part.value())) continue;
      throw UsageError("layer '" + node.name + "' is divided by '" + text_of(place.how) +
                       "', and normalizes over the batch ('" + part.key() +
                       "'), which takes statistics of the whole: let it be \"whole\" in "
                       "[[placement.layers]], or make the normalization a layer of its own");
    }
  }
}

std::int64_t least_rows(const model::Blueprint& blueprint, const model::PartitionPlan& plan,
                        at::ScalarType type, bool together) {
  for (const model::PartitionedNode& place : plan.nodes) {
    const model::Node& node = plan.node_of(blueprint, place);
    const model::Shape& shape = plan.values[place.output].shape;
    const bool frozen = node.module != nullptr && !node.module->module.ptr()->is_training();
    if (!together && !frozen && std::holds_alternative<model::layer::BatchNorm>(node.kind) &&
        model::elements_of(shape) == shape[0])
      return 2;
    const bool whole = place.how == model::Division::whole || plan.partitions == 1;
    if (!whole || !std::holds_alternative<model::layer::Opaque>(node.kind)) continue;
    const torch::nn::AnyModule& module = node.module->module;
    const model::Shape& input = plan.values[place.inputs.front()].shape;
    if (!takes(module, input, 1, type) && takes(module, input, 2, type)) return 2;
  }
  return 1;
}

void check_user_layers(const comm::World& world, const model::Blueprint& blueprint,
                       const model::PartitionPlan& plan, at::ScalarType wire) {
  const auto bytes = [wire](double values) {
    const double exact = values * static_cast<double>(c10::elementSize(wire));
    return format_bytes(static_cast<std::uint64_t>(std::llround(exact)));
  };
  std::vector<std::string> not_checked;
  const std::vector<model::Overstatement> found = check_parts(blueprint, plan, &not_checked);
  if (world.rank() != 0) return;
  for (const std::string& text : not_checked) {
    world.log().warning(text +
                        ". Whether its parts are those of the whole is not known; "
                        "partitioned.check = false leaves this out");
  }
  for (const model::Overstatement& o : found) {
    world.log().warning("layer '" + o.layer + "' states more of its input than it reads: for " +
                        o.output.text() + " partition " + std::to_string(o.partition) + " needs " +
                        o.stated.text() + " by that, of which it reads " + o.read.text() + ". Of " +
                        bytes(o.sent) + " of '" + o.value +
                        "' that partitions send each other for a sample, nobody reads " +
                        bytes(o.unread));
  }
}

}  // namespace convoy::train
