#include "cli/models/measure.h"

#include <torch/torch.h>

#include <map>

#include "cli/bench/median.h"
#include "convoy/base/clock.h"
#include "convoy/model/stage.h"
#include "convoy/train/threads.h"

namespace convoy::cli {
namespace {

using model::Tensors;

struct Samples {
  std::vector<double> forward, backward;

  LayerTime middle() const { return {median(forward), backward.empty() ? 0 : median(backward)}; }
};

// One pass through `compute`, and back with a gradient of ones.
template <class Compute>
torch::Tensor pass(Samples& samples, Compute&& compute) {
  auto start = Clock::now();
  torch::Tensor output = compute();
  samples.forward.push_back(seconds_since(start));
  if (!output.requires_grad()) return output;
  const torch::Tensor gradient = torch::ones_like(output);
  start = Clock::now();
  output.backward(gradient);
  samples.backward.push_back(seconds_since(start));
  return output.detach();
}

// As somebody else's output: what comes from a layer before needs a gradient.
torch::Tensor as_input(const torch::Tensor& value, bool first) {
  torch::Tensor input = value.detach();
  if (!first) input.set_requires_grad(true);
  return input;
}

void forget_gradients(torch::nn::Module& network) {
  for (torch::Tensor& parameter : network.parameters()) parameter.mutable_grad() = torch::Tensor();
}

Tensors pass_stage(model::Stage& stage, bool first, const Tensors& inputs, Samples* samples) {
  const model::StageSpec& spec = stage.spec();
  std::map<std::string, torch::Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[spec.inputs[i]] = inputs[i];
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const model::Node& node = spec.nodes[i];
    Tensors arguments;
    for (const std::string& input : node.inputs)
      arguments.push_back(as_input(values.at(input), first && input == spec.inputs[0]));
    values[node.name] = pass(samples[i], [&] { return stage.run(i, arguments); });
  }
  Tensors outputs;
  for (const std::string& output : spec.outputs) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace

NetworkTime measure_network(const model::Blueprint& blueprint, std::int64_t batch,
                            int repetitions) {
  NetworkTime result;
  result.threads = train::set_threads();
  model::StagedNetwork network(blueprint, 1);
  Tensors inputs;
  for (model::Shape shape : blueprint.inputs) {
    shape.insert(shape.begin(), batch);
    inputs.push_back(torch::rand(shape));
  }
  std::size_t count = 0;
  for (const model::StageSpec& stage : blueprint.stages) count += stage.nodes.size();

  Samples whole;
  std::vector<Samples> layers(count);
  for (int i = 0; i <= repetitions; ++i) {
    if (i == 1) {  // the first passes allocate, and choose kernels
      whole = {};
      layers.assign(count, {});
    }
    forget_gradients(network);
    pass(whole, [&] { return network.run(inputs).front(); });
    forget_gradients(network);
    Tensors passed = inputs;
    std::size_t done = 0;
    for (const auto& stage : network.stages()) {
      passed = pass_stage(*stage, done == 0, passed, layers.data() + done);
      done += stage->spec().nodes.size();
    }
  }
  result.whole = whole.middle();
  for (const Samples& samples : layers) result.layers.push_back(samples.middle());
  return result;
}

}  // namespace convoy::cli
