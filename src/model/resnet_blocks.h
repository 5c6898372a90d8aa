// The two residual blocks, private to the model layer.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace convoy::model {

torch::nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride = 1);
torch::nn::Conv2d conv1x1(std::int64_t in, std::int64_t out, std::int64_t stride = 1);

// A block's output has width * kExpansion channels. `downsample` maps the input to the output's
// shape and is empty where they agree already. last_norm() is what zero_init_residual zeroes.
//
// Layers are constructed and registered in torchvision's order: construction draws from the
// generator, registration is the order in which initialization visits them.
class BasicBlock final : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
             torch::nn::Sequential downsample);
  torch::Tensor forward(torch::Tensor x);
  torch::nn::BatchNorm2d last_norm() { return bn2_; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Sequential downsample_{nullptr};
};

class Bottleneck final : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
             torch::nn::Sequential downsample);
  torch::Tensor forward(torch::Tensor x);
  torch::nn::BatchNorm2d last_norm() { return bn3_; }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d bn3_;
  torch::nn::Sequential downsample_{nullptr};
};

}  // namespace convoy::model
