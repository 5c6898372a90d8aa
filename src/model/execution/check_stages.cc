#include <algorithm>
#include <map>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/model/stage.h"

namespace convoy::model {
namespace {

// Added to what is said not to matter, both ways: of maxima only one shows.
constexpr double kDisturbances[] = {10, -10};
// Of the largest value: what rounding makes of disturbances that cancel out in it (a convolution
// may compute tiles of its output by transforms).
constexpr double kRounding = 1e-4;

Shape sample_shape(const torch::Tensor& batch) { return batch.sizes().slice(1).vec(); }

// This part of each sample, as a view.
torch::Tensor part_of(torch::Tensor batch, const Slice& part) {
  for (std::size_t d = 0; d < part.shape.size(); ++d)
    batch = batch.narrow(static_cast<std::int64_t>(d) + 1, part.begin[d], part.size[d]);
  return batch;
}

// Single elements at both ends and in the middle, and a box.
std::vector<Slice> parts_to_try(const Slice& whole) {
  std::vector<Slice> parts(4, whole);
  for (std::size_t d = 0; d < whole.shape.size(); ++d) {
    const std::int64_t extent = whole.shape[d];
    for (Slice& part : parts) part.size[d] = std::min<std::int64_t>(extent, 1);
    parts[1].begin[d] = std::max<std::int64_t>(extent - 1, 0);
    parts[2].begin[d] = extent / 2;
    parts[3].begin[d] = extent / 3;
    parts[3].size[d] = std::min(extent - extent / 3, extent / 3 + 1);
  }
  return parts;
}

class LayerCheck {
 public:
  LayerCheck(Stage& stage, std::size_t node, const Tensors& inputs)
      : stage_(stage), node_(node), inputs_(inputs), output_(stage.run(node, inputs)) {
    for (const torch::Tensor& input : inputs) shapes_.push_back(sample_shape(input));
  }

  torch::Tensor run() {
    const Shape stated = output_shape(node(), shapes_), real = sample_shape(output_);
    if (stated != real || output_.size(0) != inputs_[0].size(0)) {
      complain("states that its output is " + text_of(stated) + ", but it is " + text_of(real));
    }
    if (output_.numel() == 0) return output_;
    for (const Slice& part : parts_to_try(whole_of(node().name, stated))) check(part);
    return output_;
  }

 private:
  const Node& node() const { return stage_.spec().nodes[node_]; }

  [[noreturn]] void complain(const std::string& what) const {
    throw UsageError("stage '" + stage_.spec().name + "', layer '" + node().name + "': " + what);
  }

  void check(const Slice& part) {
    const std::vector<Slice> needed = required_input(node(), shapes_, part);
    const double tolerance = kRounding * (1 + output_.abs().max().item<double>());
    for (const double disturbance : kDisturbances) {
      Tensors disturbed;
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        disturbed.push_back(inputs_[i] + disturbance);
        part_of(disturbed[i], needed[i]).copy_(part_of(inputs_[i], needed[i]));
      }
      const torch::Tensor other = stage_.run(node_, disturbed);
      const torch::Tensor change = (part_of(other, part) - part_of(output_, part)).abs().max();
      if (change.item<double>() <= tolerance) continue;
      std::string text = "states that " + part.text() + " needs no more than";
      for (std::size_t i = 0; i < needed.size(); ++i)
        text += (i == 0 ? " " : " and ") + needed[i].text();
      complain(text + ", but other elements change it");
    }
  }

  Stage& stage_;
  std::size_t node_;
  const Tensors& inputs_;
  torch::Tensor output_;
  std::vector<Shape> shapes_;
};

Tensors check_stage(Stage& stage, const Tensors& inputs) {
  std::map<std::string, torch::Tensor> values;
  const StageSpec& spec = stage.spec();
  for (std::size_t i = 0; i < inputs.size(); ++i) values[spec.inputs[i]] = inputs[i];
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    Tensors arguments;
    for (const std::string& input : spec.nodes[i].inputs) arguments.push_back(values.at(input));
    values[spec.nodes[i].name] = LayerCheck(stage, i, arguments).run();
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
  const bool training = network.is_training();
  network.eval();
  try {
    for (const auto& stage : network.stages()) inputs = check_stage(*stage, inputs);
  } catch (...) {
    network.train(training);
    throw;
  }
  network.train(training);
}

}  // namespace convoy::model
