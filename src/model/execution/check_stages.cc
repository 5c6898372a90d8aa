#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/stage.h"
#include "model/execution/layer_check.h"
#include "model/keep_modes.h"

namespace convoy::model {
namespace {

torch::Tensor check_layer(Stage& stage, std::size_t index, const Tensors& inputs) {
  const Node& node = stage.spec().nodes[index];
  std::vector<Shape> shapes;
  for (const torch::Tensor& input : inputs) shapes.push_back(input.sizes().slice(1).vec());
  const RunLayer layer{node, shapes, inputs, stage.run(index, inputs),
                       [&](const Tensors& others) { return stage.run(index, others); }};
  const auto check = [&](const std::optional<std::string>& problem) {
    if (!problem) return;
    throw UsageError("stage '" + stage.spec().name + "', layer '" + node.name + "': " + *problem);
  };
  check(problem_of_output(layer));
  if (layer.output.numel() == 0) return layer.output;
  for (const Slice& part : parts_to_try(whole_of(node.name, output_shape(node, shapes))))
    check(problem_of_required(layer, part));
  return layer.output;
}

Tensors check_stage(Stage& stage, const Tensors& inputs) {
  std::map<std::string, torch::Tensor> values;
  const StageSpec& spec = stage.spec();
  for (std::size_t i = 0; i < inputs.size(); ++i) values[spec.inputs[i]] = inputs[i];
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    Tensors arguments;
    for (const std::string& input : spec.nodes[i].inputs) arguments.push_back(values.at(input));
    values[spec.nodes[i].name] = check_layer(stage, i, arguments);
  }
  Tensors outputs;
  for (const std::string& output : spec.outputs) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace

void check_stages(StagedNetwork& network, Tensors inputs) {
  if (inputs.size() != network.blueprint()->inputs.size()) {
    throw UsageError("the network takes " + std::to_string(network.blueprint()->inputs.size()) +
                     " tensors, not " + std::to_string(inputs.size()));
  }
  const torch::NoGradGuard no_grad;
  const KeepModes modes(network);
  network.eval();
  for (const auto& stage : network.stages()) inputs = check_stage(*stage, inputs);
}

}  // namespace convoy::model
