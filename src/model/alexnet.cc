#include "convoy/model/alexnet.h"

#include "convoy/model/linear.h"

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

// Statement by statement: the order in which layers draw their first weights must not be the
// compiler's choice, as that of a call's arguments is.
torch::nn::Sequential make_features() {
  torch::nn::Sequential layers;
  const auto add = [&](torch::nn::Conv2d layer, bool with_pool) {
    layers->push_back(layer);
    layers->push_back(relu());
    if (with_pool) layers->push_back(pool());
  };
  add(conv(3, 64, 11, 2, 4), true);
  add(conv(64, 192, 5, 2), true);
  add(conv(192, 384, 3, 1), false);
  add(conv(384, 256, 3, 1), false);
  add(conv(256, 256, 3, 1), true);
  return layers;
}

torch::nn::Sequential make_classifier(const AlexNetOptions& options) {
  torch::nn::Sequential layers;
  layers->push_back(torch::nn::Dropout(options.dropout));
  layers->push_back(Linear(kFeatures, kHidden));
  layers->push_back(relu());
  layers->push_back(torch::nn::Dropout(options.dropout));
  layers->push_back(Linear(kHidden, kHidden));
  layers->push_back(relu());
  layers->push_back(Linear(kHidden, options.classes));
  return layers;
}

}  // namespace

AlexNet::AlexNet(const AlexNetOptions& options)
    : Network("AlexNet"),
      classes_(options.classes),
      features_(register_module("features", make_features())),
      classifier_(register_module("classifier", make_classifier(options))) {}

torch::Tensor AlexNet::forward(torch::Tensor images) {
  const auto x = torch::adaptive_avg_pool2d(features_->forward(images), {kGrid, kGrid});
  return classifier_->forward(x.flatten(1));
}

}  // namespace convoy::model
