// AlexNet in one tower (Krizhevsky 2014, "One weird trick") as torchvision builds it.
#pragma once

#include <array>
#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct AlexNetOptions {
  std::int64_t classes = 1000;
  // Probability of dropping an input of either hidden fully connected layer; in [0, 1).
  double dropout = 0.5;
  // Counts the units of each of those layers.
  std::int64_t hidden = 4096;
  // Maps of the five convolutions.
  std::array<std::int64_t, 5> widths{64, 192, 384, 256, 256};
};

// These are the widths of the paper's footnote.
inline constexpr std::array<std::int64_t, 5> kOneTower{64, 192, 384, 384, 256};

// Five convolutions (64 of 11 x 11 with stride 4, 192 of 5 x 5, 384, 256 and 256 of 3 x 3), with
// max pooling (3 x 3, stride 2) after the first, second and fifth, averages over a grid of 6 x 6,
// and three fully connected layers (4096, 4096, classes). ReLU everywhere, no normalization. Images
// of 3 x 224 x 224, or any size from 63 x 63. 61,100,840 parameters with 1000 classes, 96% of them
// in the fully connected layers; 61,838,248 with the widths of the paper's footnote. Stages:
// "conv1" to "conv5", "fc6" to "fc8".
//
// Names and shapes are torchvision's ("features.0.weight", "classifier.6.bias"), and so are the
// distributions of the first values, LibTorch's defaults.
Blueprint alexnet(const AlexNetOptions& options = {});

}  // namespace convoy::model
