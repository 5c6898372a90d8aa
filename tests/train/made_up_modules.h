// Modules of a user's among the layers of networks that are made up at random.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "convoy/model/modules.h"
#include "tests/model/made_up_network.h"
#include "tests/model/user_layers.h"

namespace convoy::train::testing_data {

// Derived from modules that Convoy knows, and computing something else.
class ScaledConvImpl final : public torch::nn::Conv2dImpl {
 public:
  explicit ScaledConvImpl(const torch::nn::Conv2dOptions& all) : Conv2dImpl(all), all_(all) {}
  torch::Tensor forward(const torch::Tensor& x) { return 0.5 * Conv2dImpl::forward(x); }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& /*device*/) const override {
    const auto copy = std::make_shared<ScaledConvImpl>(all_);
    const torch::NoGradGuard no_grad;
    copy->weight.copy_(weight);
    copy->bias.copy_(bias);
    return copy;
  }

 private:
  torch::nn::Conv2dOptions all_;
};
TORCH_MODULE(ScaledConv);

class LeakyImpl final : public torch::nn::ReLUImpl {
 public:
  torch::Tensor forward(const torch::Tensor& x) { return torch::leaky_relu(x, 0.1); }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& /*device*/) const override {
    return std::make_shared<LeakyImpl>();
  }
};
TORCH_MODULE(Leaky);

// Known to nobody: each output depends on the whole input.
class GatedImpl final : public torch::nn::Cloneable<GatedImpl> {
 public:
  explicit GatedImpl(std::int64_t channels) : channels_(channels) { GatedImpl::reset(); }
  void reset() override {
    gate_ = register_module("gate", torch::nn::Linear(channels_, channels_));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return x * gate_(x.mean({2, 3})).sigmoid().unsqueeze(2).unsqueeze(3);
  }

 private:
  std::int64_t channels_;
  torch::nn::Linear gate_{nullptr};
};
TORCH_MODULE(Gated);

// Weights are drawn from Torch's own generator.
inline model::Node made_up_module(model::Random& random, const std::string& name,
                                  const model::Shape& input) {
  model::ModuleList list("One", input);
  const std::int64_t channels = input[0];
  switch (random.number(0, 4)) {
    case 0: {
      const auto options = torch::nn::Conv2dOptions(channels, random.number(1, 4), 3).padding(1);
      list.add(name, ScaledConv(options));
      break;
    }
    case 1:
      list.add(name, Leaky());
      break;
    case 2:
      list.add(name, Gated(channels));
      break;
    case 3:
      list.add(name, torch::nn::LayerNorm(torch::nn::LayerNormOptions(input)));
      break;
    default:
      list.add(name, model::Window(channels, input[1], input[2]), model::window_statement());
  }
  return list.blueprint().stages.front().nodes.front();
}

}  // namespace convoy::train::testing_data
