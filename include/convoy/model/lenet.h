// LeNet in the form that Caffe made the usual one for MNIST.
#pragma once

#include "convoy/model/linear.h"
#include "convoy/model/network.h"

namespace convoy::model {

// conv1 1->20 5x5, max pool 2, conv2 20->50 5x5, max pool 2, fc1 800->500, ReLU, fc2 500->classes;
// images of 1 x 28 x 28. 431,080 parameters with 10 classes.
//
// Initialization: Caffe's "xavier" filler, weights uniform in +-sqrt(3 / fan_in), biases zero; from
// LibTorch's default generator.
class LeNet final : public Network {
 public:
  explicit LeNet(std::int64_t classes = 10);

  torch::Tensor forward(torch::Tensor images) override;
  std::array<std::int64_t, 3> image_shape() const override { return {1, 28, 28}; }
  std::int64_t classes() const override { return fc2_->options.out_features(); }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  Linear fc1_;
  Linear fc2_;
};

}  // namespace convoy::model
