#include "train/planning/network_time.h"

#include <map>
#include <utility>

#include "base/median.h"

namespace convoy::train {
namespace {

struct Samples {
  std::vector<double> forward, backward;

  LayerTime middle() const { return {median(forward), backward.empty() ? 0 : median(backward)}; }
};

// One pass through `compute`, and back with a gradient of ones.
template <class Compute>
torch::Tensor pass(Stopwatch& watch, Samples& samples, Compute&& compute) {
  watch.restart();
  torch::Tensor output = compute();
  samples.forward.push_back(watch.seconds());
  if (!output.requires_grad()) return output;
  const torch::Tensor gradient = torch::ones_like(output);
  watch.restart();
  output.backward(gradient);
  samples.backward.push_back(watch.seconds());
  return output.detach();
}

// As somebody else's output: what comes from a layer before needs a gradient.
torch::Tensor as_input(const torch::Tensor& value, bool first) {
  torch::Tensor input = value.detach();
  if (!first) input.set_requires_grad(true);
  return input;
}

// What a training step goes back from: the scores, and those of auxiliary classifiers with them.
torch::Tensor trained_outputs(model::StagedNetwork& network, const model::Tensors& inputs) {
  const model::Tensors outputs = network.run(inputs);
  torch::Tensor all = outputs.front();
  const std::size_t auxiliary =
      network.is_training() ? network.blueprint()->auxiliary.size() : std::size_t{0};
  for (std::size_t i = outputs.size() - auxiliary; i < outputs.size(); ++i)
    all = all + outputs[i].sum();
  return all;
}

void forget_gradients(torch::nn::Module& network) {
  for (torch::Tensor& parameter : network.parameters()) parameter.mutable_grad() = torch::Tensor();
}

model::Tensors pass_stage(Stopwatch& watch, model::Stage& stage, bool first,
                          const model::Tensors& inputs, Samples* samples) {
  const model::StageSpec& spec = stage.spec();
  std::map<std::string, torch::Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[spec.inputs[i]] = inputs[i];
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const model::Node& node = spec.nodes[i];
    model::Tensors arguments;
    for (const std::string& input : node.inputs)
      arguments.push_back(as_input(values.at(input), first && input == spec.inputs[0]));
    values[node.name] = pass(watch, samples[i], [&] { return stage.run(i, arguments); });
  }
  model::Tensors outputs;
  for (const std::string& output : spec.outputs) outputs.push_back(values.at(output));
  return outputs;
}

std::vector<LayerTime> middles(const std::vector<Samples>& all) {
  std::vector<LayerTime> times;
  for (const Samples& samples : all) times.push_back(samples.middle());
  return times;
}

}  // namespace

NetworkTime time_network(model::StagedNetwork& network, const model::Tensors& inputs,
                         int repetitions, Stopwatch watch) {
  std::size_t count = 0;
  for (const auto& stage : network.stages()) count += stage->spec().nodes.size();
  Samples whole;
  std::vector<Samples> layers(count);
  for (int i = 0; i <= repetitions; ++i) {
    if (i == 1) {  // the first passes allocate, and choose kernels
      whole = {};
      layers.assign(count, {});
    }
    forget_gradients(network);
    pass(watch, whole, [&] { return trained_outputs(network, inputs); });
    forget_gradients(network);
    model::Tensors passed = inputs;
    std::size_t done = 0;
    for (const auto& stage : network.stages()) {
      passed = pass_stage(watch, *stage, done == 0, passed, layers.data() + done);
      done += stage->spec().nodes.size();
    }
  }
  return {whole.middle(), middles(layers)};
}

LayerTime time_pass(const std::function<torch::Tensor()>& compute, int repetitions,
                    Stopwatch watch) {
  Samples samples;
  for (int i = 0; i <= repetitions; ++i) {
    if (i == 1) samples = {};
    pass(watch, samples, compute);
  }
  return samples.middle();
}

std::vector<LayerTime> time_stages(const std::vector<std::shared_ptr<model::Stage>>& stages,
                                   const std::vector<torch::Tensor>& inputs, int repetitions,
                                   bool fresh_gradients, Stopwatch watch) {
  std::vector<Samples> all(stages.size());
  for (int i = 0; i <= repetitions; ++i) {
    if (i == 1) all.assign(stages.size(), {});
    for (std::size_t s = 0; s < stages.size(); ++s) {
      if (fresh_gradients) forget_gradients(*stages[s]);
      pass(watch, all[s],
           [&] { return stages[s]->forward({as_input(inputs[s], /*first=*/false)}).front(); });
    }
  }
  return middles(all);
}

}  // namespace convoy::train
