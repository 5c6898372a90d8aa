#include "model/execution/layer_check.h"

#include <algorithm>

#include "model/execution/cut.h"

namespace convoy::model {
namespace {

// Of the largest value.
constexpr double kRounding = 1e-4;

// This part of each sample, as a view.
torch::Tensor part_of(const torch::Tensor& batch, const Slice& part) {
  return cut_samples(batch, whole_of(part.tensor, part.shape), part);
}

}  // namespace

double tolerance_of(const torch::Tensor& values) {
  return kRounding * (1 + values.abs().max().item<double>());
}

std::vector<Slice> parts_to_try(const Slice& box) {
  std::vector<Slice> parts(4, box);
  for (std::size_t d = 0; d < box.shape.size(); ++d) {
    const std::int64_t extent = box.size[d];
    for (Slice& part : parts) part.size[d] = std::min<std::int64_t>(extent, 1);
    parts[1].begin[d] += std::max<std::int64_t>(extent - 1, 0);
    parts[2].begin[d] += extent / 2;
    parts[3].begin[d] += extent / 3;
    parts[3].size[d] = std::min(extent - extent / 3, extent / 3 + 1);
  }
  return parts;
}

std::optional<std::string> problem_of_output(const RunLayer& layer) {
  const Shape stated = output_shape(layer.node, layer.shapes);
  const Shape real = layer.output.sizes().slice(1).vec();
  if (stated == real && layer.output.size(0) == layer.inputs[0].size(0)) return std::nullopt;
  return "states that its output is " + text_of(stated) + ", but it is " + text_of(real);
}

std::optional<std::string> problem_of_required(const RunLayer& layer, const Slice& part) {
  const std::vector<Slice> needed = required_input(layer.node, layer.shapes, part);
  const double tolerance = tolerance_of(layer.output);
  for (const double disturbance : kDisturbances) {
    Tensors disturbed;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      disturbed.push_back(layer.inputs[i] + disturbance);
      part_of(disturbed[i], needed[i]).copy_(part_of(layer.inputs[i], needed[i]));
    }
    const torch::Tensor other = layer.run(disturbed);
    const torch::Tensor change = (part_of(other, part) - part_of(layer.output, part)).abs().max();
    if (change.item<double>() <= tolerance) continue;
    std::string text = "states that " + part.text() + " needs no more than";
    for (std::size_t i = 0; i < needed.size(); ++i)
      text += (i == 0 ? " " : " and ") + needed[i].text();
    return text + ", but other elements change it";
  }
  return std::nullopt;
}

}  // namespace convoy::model
