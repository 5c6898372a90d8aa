#include "convoy/model/alexnet.h"

namespace convoy::model {
namespace {

// The averages that the fully connected layers see: 256 channels of 6 x 6.
constexpr std::int64_t kGrid = 6;
constexpr std::int64_t kFeatures = 256 * kGrid * kGrid;
constexpr std::int64_t kHidden = 4096;

torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t padding,
                       std::int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(padding));
}

torch::nn::MaxPool2d pool() {
  return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2));
}

torch::nn::ReLU relu() { return torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)); }

}  // namespace

AlexNet::AlexNet(const AlexNetOptions& options)
    : Network("AlexNet"),
      classes_(options.classes),
      features_(register_module(
          "features",
          torch::nn::Sequential(conv(3, 64, 11, 2, 4), relu(), pool(), conv(64, 192, 5, 2), relu(),
                                pool(), conv(192, 384, 3, 1), relu(), conv(384, 256, 3, 1), relu(),
                                conv(256, 256, 3, 1), relu(), pool()))),
      classifier_(register_module(
          "classifier", torch::nn::Sequential(torch::nn::Dropout(options.dropout),
                                              torch::nn::Linear(kFeatures, kHidden), relu(),
                                              torch::nn::Dropout(options.dropout),
                                              torch::nn::Linear(kHidden, kHidden), relu(),
                                              torch::nn::Linear(kHidden, options.classes)))) {}

torch::Tensor AlexNet::forward(torch::Tensor images) {
  const auto x = torch::adaptive_avg_pool2d(features_->forward(images), {kGrid, kGrid});
  return classifier_->forward(x.flatten(1));
}

}  // namespace convoy::model
