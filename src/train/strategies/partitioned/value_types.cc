#include "train/strategies/partitioned/value_types.h"

#include <cstddef>

#include "convoy/base/error.h"
#include "model/keep_modes.h"

namespace convoy::train {
namespace {

// Of a part of which this rank has nothing.
constexpr double kUnknown = -1;

torch::Tensor one_sample(const Slice& box, at::ScalarType type, const at::Device& device) {
  std::vector<std::int64_t> size{1};
  size.insert(size.end(), box.size.begin(), box.size.end());
  return torch::zeros(size, torch::TensorOptions().dtype(type).device(device));
}

}  // namespace

std::vector<at::ScalarType> value_types(PartitionedNetwork& network,
                                        const comm::Communicator& partitions,
                                        const std::vector<at::ScalarType>& inputs,
                                        const at::Device& device) {
  const torch::NoGradGuard no_grad;
  const model::KeepModes modes(network);
  network.eval();
  const model::PartitionPlan& plan = network.plan();
  const auto me = static_cast<std::size_t>(partitions.rank());
  std::vector<at::ScalarType> types = inputs;  // which are the first values
  types.resize(plan.values.size(), at::kFloat);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const model::PartitionedNode& place = plan.nodes[i];
    const PartLayer& layer = network.layers()[i];
    std::vector<double> own{kUnknown};
    if (!layer.empty()) {
      model::Tensors samples;
      std::vector<Slice> boxes;
      for (std::size_t n = 0; n < place.inputs.size(); ++n) {
        boxes.push_back(place.required[n][me]);
        samples.push_back(one_sample(boxes.back(), types[place.inputs[n]], device));
      }
      const torch::Tensor output = layer.compute(samples, boxes, layer.output(), false);
      own[0] = static_cast<double>(static_cast<int>(output.scalar_type()));
    }
    partitions.allreduce(comm::buffer_of(own), comm::ReduceOp::max);
    if (own[0] == kUnknown)
      throw Failure("layer '" + layer.node().name + "' is computed by no partition");
    types[place.output] = static_cast<at::ScalarType>(static_cast<int>(own[0]));
  }
  return types;
}

}  // namespace convoy::train
