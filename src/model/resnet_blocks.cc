#include "model/resnet_blocks.h"

namespace convoy::model {

torch::nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

torch::nn::Conv2d conv1x1(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false));
}

BasicBlock::BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
                       torch::nn::Sequential downsample)
    : torch::nn::Module("BasicBlock"),
      conv1_(register_module("conv1", conv3x3(in, width, stride))),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(width))),
      conv2_(register_module("conv2", conv3x3(width, width))),
      bn2_(register_module("bn2", torch::nn::BatchNorm2d(width))) {
  if (!downsample.is_empty()) downsample_ = register_module("downsample", downsample);
}

torch::Tensor BasicBlock::forward(torch::Tensor x) {
  auto out = bn1_(conv1_(x)).relu_();
  out = bn2_(conv2_(out));
  out += downsample_.is_empty() ? x : downsample_->forward(x);
  return out.relu_();
}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
                       torch::nn::Sequential downsample)
    : torch::nn::Module("Bottleneck"),
      conv1_(register_module("conv1", conv1x1(in, width))),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(width))),
      conv2_(register_module("conv2", conv3x3(width, width, stride))),
      bn2_(register_module("bn2", torch::nn::BatchNorm2d(width))),
      conv3_(register_module("conv3", conv1x1(width, width * kExpansion))),
      bn3_(register_module("bn3", torch::nn::BatchNorm2d(width * kExpansion))) {
  if (!downsample.is_empty()) downsample_ = register_module("downsample", downsample);
}

torch::Tensor Bottleneck::forward(torch::Tensor x) {
  auto out = bn1_(conv1_(x)).relu_();
  out = bn2_(conv2_(out)).relu_();
  out = bn3_(conv3_(out));
  out += downsample_.is_empty() ? x : downsample_->forward(x);
  return out.relu_();
}

}  // namespace convoy::model
