// Residual networks (He et al. 2015) as torchvision builds them.
#pragma once

#include "convoy/model/blueprint.h"

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
// 3x3 convolution. Images of 3 x 224 x 224, or any size from 32 x 32. Stages: "stem", each block
// ("layer1.0"), "head".
//
// Names and shapes of parameters and buffers are torchvision's ("layer1.0.conv1.weight",
// "layer2.0.downsample.1.running_mean", "fc.bias"), and so are the distributions of the first
// values: Kaiming normal by fan-out for convolutions, 1 and 0 for batch normalization, LibTorch's
// default for fc.
Blueprint resnet(const ResNetOptions& options = {});

}  // namespace convoy::model
