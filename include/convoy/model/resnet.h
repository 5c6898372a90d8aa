// Residual networks (He et al. 2015) as torchvision builds them.
#pragma once

#include "convoy/model/linear.h"
#include "convoy/model/network.h"

namespace convoy::model {

enum class ResNetDepth { k18 = 18, k34 = 34, k50 = 50, k101 = 101 };

struct ResNetOptions {
  ResNetDepth depth = ResNetDepth::k50;
  std::int64_t classes = 1000;
  // Starts the last batch normalization of each block at weight 0, so that every block begins as
  // the identity (Goyal et al. 2017; Kumar et al. 2017 train ResNet-50 this way).
  bool zero_init_residual = false;
};

// ResNet-18 and -34 from basic blocks, ResNet-50 and -101 from bottlenecks with the stride in the
// 3x3 convolution. Images of 3 x 224 x 224, or any size from 32 x 32.
//
// Names and shapes of parameters and buffers are torchvision's ("layer1.0.conv1.weight",
// "layer2.0.downsample.1.running_mean", "fc.bias"). Initialization, too: Kaiming normal by fan-out
// for convolutions, 1 and 0 for batch normalization, LibTorch's default for fc; drawn in
// torchvision's order, so the same seed of the default generator gives the same weights as Python.
class ResNet final : public Network {
 public:
  explicit ResNet(const ResNetOptions& options = {});

  torch::Tensor forward(torch::Tensor images) override;
  std::array<std::int64_t, 3> image_shape() const override { return {3, 224, 224}; }
  std::int64_t classes() const override { return fc_->options.out_features(); }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::array<torch::nn::Sequential, 4> stages_;
  Linear fc_{nullptr};
};

}  // namespace convoy::model
