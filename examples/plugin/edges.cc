#include "edges.h"

#include <convoy/model/modules.h>

#include <algorithm>
#include <cstdint>

namespace {

using convoy::Slice;
using convoy::model::ModulePart;
using convoy::model::Shape;

// What each row has more than the one above it, times a weight that each position has for itself:
//
//   y[c, j, k] = gain[j, k] * (x[c, j, k] - x[c, j - 1, k]), with zeros above the image
class EdgesImpl : public torch::nn::Cloneable<EdgesImpl>, public convoy::model::PartModule {
 public:
  EdgesImpl(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    EdgesImpl::reset();
  }
  void reset() override { gain_ = register_parameter("gain", torch::ones({height_, width_})); }

  torch::Tensor forward(const torch::Tensor& images) { return edges(images, 1, gain_); }

  // The same for part.output. `x` has part.input of each image: a row more above, but at the top.
  torch::Tensor forward_part(const torch::Tensor& x, const ModulePart& part) override {
    const std::int64_t above = part.output.begin[1] - part.input.begin[1];
    return edges(x, 1 - above, part.tensors.at("gain"));
  }

 private:
  static torch::Tensor edges(const torch::Tensor& x, std::int64_t missing,
                             const torch::Tensor& gain) {
    const torch::Tensor rows = torch::constant_pad_nd(x, {0, 0, missing, 0});
    return gain * (rows.slice(2, 1) - rows.slice(2, 0, -1));
  }

  std::int64_t height_, width_;
  torch::Tensor gain_;
};
TORCH_MODULE(Edges);

// What follows from the layer's definition: which part of an image, and of its parameters, a part
// of the output needs. Who divides it over machines derives from this what they send each other.
convoy::model::Statement edges_statement() {
  convoy::model::Statement states;
  states.output = [](const Shape& image) { return image; };
  states.required = [](const Shape&, const Slice& output) {
    Slice image = output;
    image.begin[1] = std::max<std::int64_t>(output.begin[1] - 1, 0);
    image.size[1] = output.begin[1] + output.size[1] - image.begin[1];
    return image;
  };
  states.required_tensor = [](const Slice& gain, const Slice& output) {
    return Slice{gain.tensor,
                 gain.shape,
                 {output.begin[1], output.begin[2]},
                 {output.size[1], output.size[2]}};
  };
  return states;
}

torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 5).padding(2));
}

convoy::model::Blueprint edges_net(const convoy::train::ModelRequest& request) {
  const auto [channels, height, width] = request.image;
  convoy::model::ModuleList list("EdgesNet", {channels, height, width});
  list.add("conv1", convolution(channels, 8))
      .add("relu1", torch::nn::ReLU())
      .add("pool1", torch::nn::MaxPool2d(2))
      .add("edges", Edges(height / 2, width / 2), edges_statement())
      .add("conv2", convolution(8, 16))
      .add("relu2", torch::nn::ReLU())
      .add("mean", torch::nn::AdaptiveAvgPool2d(1))
      .add("flatten", torch::nn::Flatten())
      .add("fc", torch::nn::Linear(16, request.classes));
  return list.blueprint();
}

}  // namespace

void add_edges(convoy::train::Registry& registry) { registry.add_model("edges", edges_net); }
