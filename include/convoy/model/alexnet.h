// AlexNet in one tower (Krizhevsky 2014, "One weird trick") as torchvision builds it.
#pragma once

#include "convoy/model/network.h"

namespace convoy::model {

struct AlexNetOptions {
  std::int64_t classes = 1000;
  // Probability of dropping an input of either hidden fully connected layer; in [0, 1).
  double dropout = 0.5;
};

// Five convolutions (64 of 11 x 11 with stride 4, 192 of 5 x 5, 384, 256 and 256 of 3 x 3), with
// max pooling (3 x 3, stride 2) after the first, second and fifth, averages over a grid of 6 x 6,
// and three fully connected layers (4096, 4096, classes). ReLU everywhere, no normalization. Images
// of 3 x 224 x 224, or any size from 63 x 63. 61,100,840 parameters with 1000 classes, 96% of them
// in the fully connected layers.
//
// Names and shapes are torchvision's ("features.0.weight", "classifier.6.bias"). Initialization,
// too: LibTorch's defaults, drawn in torchvision's order.
class AlexNet final : public Network {
 public:
  explicit AlexNet(const AlexNetOptions& options = {});

  torch::Tensor forward(torch::Tensor images) override;
  std::array<std::int64_t, 3> image_shape() const override { return {3, 224, 224}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace convoy::model
