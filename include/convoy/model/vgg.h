// VGG networks (Simonyan and Zisserman 2014) as torchvision builds them.
#pragma once

#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct VggOptions {
  int layers = 16;          // with weights, batch normalizations aside: 11 or 16
  bool batch_norm = false;  // one behind each convolution
  std::int64_t classes = 1000;
  // Probability of dropping an output of either hidden fully connected layer; in [0, 1).
  double dropout = 0.5;
  // Counts the units of each of those layers.
  std::int64_t hidden = 4096;
};

// Convolutions of 3 x 3 in five groups (11 layers: 64 | 128 | 256, 256 | 512, 512 | 512, 512 maps;
// 16 layers: 64, 64 | 128, 128 | 256 three times | 512 three times | 512 three times) with a max
// pool of 2 x 2 after each, averages over a grid of 7 x 7, and three fully connected layers
// (hidden, hidden, classes). ReLU everywhere. Images of 3 x 224 x 224, or any size from 32 x 32.
// 132,863,336 and 138,357,544 parameters with 1000 classes, 5,504 and 8,448 more with batch
// normalization; 124 million of them are in the fully connected layers. Stages: "group1" to
// "group5", "fc6" to "fc8". UsageError for other numbers of layers.
//
// Names and shapes are torchvision's ("features.0.weight", "classifier.6.bias"), and so are the
// distributions of the first values: Kaiming normal by fan-out for convolutions, deviation 0.01 for
// fully connected layers, biases 0.
Blueprint vgg(const VggOptions& options = {});

}  // namespace convoy::model
