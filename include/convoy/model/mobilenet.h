// MobileNetV2 (Sandler et al. 2018) as torchvision builds it.
#pragma once

#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct MobileNetOptions {
  std::int64_t classes = 1000;
  // Probability of dropping an input of the fully connected layer; in [0, 1).
  double dropout = 0.2;
};

// A convolution of 3 x 3 with stride 2 and 32 maps; 17 inverted residual blocks, each a convolution
// of 1 x 1 to six times the maps (the first block has none), one of 3 x 3 that keeps maps apart
// (as many groups as maps) and one of 1 x 1 to fewer maps without an activation, with a shortcut
// where shapes are the same; a convolution of 1 x 1 to 1280 maps, the mean over positions, and the
// scores. Batch normalization behind each convolution, ReLU6 behind all but the last of a block.
// Images of 3 x 224 x 224, or any size from 32 x 32. 3,504,872 parameters with 1000 classes.
// Stages: "stem", each block ("features.1" to "features.17"), "head".
//
// Names and shapes are torchvision's ("features.2.conv.0.0.weight", "classifier.1.bias"), and so
// are the distributions of the first values: Kaiming normal by fan-out for convolutions, 1 and 0
// for batch normalization, deviation 0.01 and biases of 0 for the scores.
Blueprint mobilenet_v2(const MobileNetOptions& options = {});

}  // namespace convoy::model
