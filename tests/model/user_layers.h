// Layers as a user writes them, that compute parts of themselves.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "convoy/model/modules.h"

namespace convoy::model {

// y[c, j, k] = gain[j, k] * (sum of x[c, j + a, k + b] for a and b from -1 to 1) + bias[c], of an
// image with zeros around it.
class WindowImpl : public torch::nn::Cloneable<WindowImpl>, public PartModule {
 public:
  WindowImpl(std::int64_t channels, std::int64_t height, std::int64_t width)
      : channels_(channels), height_(height), width_(width) {
    WindowImpl::reset();
  }
  void reset() override {
    gain = register_parameter("gain", torch::empty({height_, width_}).uniform_(0.1, 0.3));
    bias = register_parameter("bias", torch::empty({channels_}).uniform_(-1, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return 9 * torch::avg_pool2d(x, 3, 1, 1) * gain + bias.view({-1, 1, 1});
  }
  torch::Tensor forward_part(const torch::Tensor& x, const ModulePart& part) override {
    const auto before = [&](std::size_t d) {
      return part.input.begin[d] - part.output.begin[d] + 1;
    };
    const auto after = [&](std::size_t d) {
      return part.output.size[d] + 2 - before(d) - part.input.size[d];
    };
    const torch::Tensor padded =
        torch::constant_pad_nd(x, {before(2), after(2), before(1), after(1)});
    const torch::Tensor y = 9 * torch::avg_pool2d(padded, 3, 1) * part.tensors.at("gain");
    return fault == Fault::shape ? y.slice(2, 1) : y + part.tensors.at("bias").view({-1, 1, 1});
  }

  torch::Tensor gain, bias;
  enum class Fault { none, shape } fault = Fault::none;

 private:
  std::int64_t channels_, height_, width_;
};
TORCH_MODULE(Window);

// Windows reach one row and column to each side.
inline Statement window_statement(std::int64_t reach = 1) {
  Statement states;
  states.output = [](const Shape& input) { return input; };
  states.required = [reach](const Shape& input, const Slice& output) {
    Slice part = output;
    for (const std::size_t d : {std::size_t{1}, std::size_t{2}}) {
      const std::int64_t end = std::min(output.begin[d] + output.size[d] + reach, input[d]);
      part.begin[d] = std::max<std::int64_t>(output.begin[d] - reach, 0);
      part.size[d] = end - part.begin[d];
    }
    return part;
  };
  states.required_tensor = [](const Slice& tensor, const Slice& output) {
    Slice part = tensor;
    const bool gain = tensor.tensor == "gain";
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      part.begin[d] = output.begin[d + (gain ? 1 : 0)];
      part.size[d] = output.size[d + (gain ? 1 : 0)];
    }
    return part;
  };
  return states;
}

// w[i] * x[i]^2, with a gradient of its own.
struct SquareFunction : torch::autograd::Function<SquareFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& w, double derivative) {
    context->save_for_backward({x, w});
    context->saved_data["derivative"] = derivative;
    return w * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &w = saved[1], &g = gradients[0];
    return {context->saved_data["derivative"].toDouble() * g * w * x, (g * x * x).sum(0),
            torch::Tensor()};
  }
};

class SquareImpl : public torch::nn::Cloneable<SquareImpl>, public PartModule {
 public:
  explicit SquareImpl(std::int64_t features) : features_(features) { SquareImpl::reset(); }
  void reset() override {
    weight = register_parameter("weight", torch::empty({features_}).uniform_(0.5, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return weight * x * x; }
  torch::Tensor forward_part(const torch::Tensor& x, const ModulePart& part) override {
    return SquareFunction::apply(x, part.tensors.at("weight"), derivative);
  }

  torch::Tensor weight;
  double derivative = 2;

 private:
  std::int64_t features_;
};
TORCH_MODULE(Square);

inline Statement square_statement() {
  Statement states;
  states.required = [](const Shape&, const Slice& output) { return output; };
  states.required_tensor = [](const Slice&, const Slice& output) {
    Slice part = output;
    part.tensor = "weight";
    return part;
  };
  return states;
}

}  // namespace convoy::model
