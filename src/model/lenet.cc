#include "convoy/model/lenet.h"

#include <cmath>

namespace convoy::model {
namespace {

// The pooled maps of conv2: 50 channels of 4 x 4.
constexpr std::int64_t kFeatures = 50 * 4 * 4;

void fill_xavier(torch::Tensor weight, torch::Tensor bias) {
  torch::NoGradGuard no_grad;
  const auto fan_in = static_cast<double>(weight.numel() / weight.size(0));
  const double bound = std::sqrt(3.0 / fan_in);
  weight.uniform_(-bound, bound);
  bias.zero_();
}

}  // namespace

LeNet::LeNet(std::int64_t classes)
    : Network("LeNet"),
      conv1_(register_module("conv1", torch::nn::Conv2d(1, 20, 5))),
      conv2_(register_module("conv2", torch::nn::Conv2d(20, 50, 5))),
      fc1_(register_module("fc1", Linear(kFeatures, 500))),
      fc2_(register_module("fc2", Linear(500, classes))) {
  fill_xavier(conv1_->weight, conv1_->bias);
  fill_xavier(conv2_->weight, conv2_->bias);
  fill_xavier(fc1_->weight, fc1_->bias);
  fill_xavier(fc2_->weight, fc2_->bias);
}

torch::Tensor LeNet::forward(torch::Tensor images) {
  auto x = torch::max_pool2d(conv1_(images), 2);
  x = torch::max_pool2d(conv2_(x), 2);
  x = fc1_(x.flatten(1)).relu_();
  return fc2_(x);
}

}  // namespace convoy::model
