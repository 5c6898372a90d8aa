#include "convoy/model/resnet.h"

#include <string>

#include "model/resnet_blocks.h"

namespace convoy::model {
namespace {

constexpr std::array<std::int64_t, 4> kWidths{64, 128, 256, 512};

std::array<std::int64_t, 4> blocks_per_stage(ResNetDepth depth) {
  switch (depth) {
    case ResNetDepth::k18:
      return {2, 2, 2, 2};
    case ResNetDepth::k34:
    case ResNetDepth::k50:
      return {3, 4, 6, 3};
    case ResNetDepth::k101:
      return {3, 4, 23, 3};
  }
  TORCH_CHECK(false, "not a depth of ResNet: ", static_cast<int>(depth));
}

// One stage of `count` blocks; `channels` comes in as its input's and leaves as its output's.
template <typename Block>
torch::nn::Sequential make_stage(std::int64_t& channels, std::int64_t width, std::int64_t count,
                                 std::int64_t stride) {
  torch::nn::Sequential stage;
  for (std::int64_t i = 0; i < count; ++i, stride = 1) {
    torch::nn::Sequential downsample{nullptr};
    const std::int64_t out = width * Block::kExpansion;
    if (stride != 1 || channels != out) {
      downsample =
          torch::nn::Sequential(conv1x1(channels, out, stride), torch::nn::BatchNorm2d(out));
    }
    stage->push_back(std::make_shared<Block>(channels, width, stride, downsample));
    channels = out;
  }
  return stage;
}

template <typename Block>
void zero_last_norms(torch::nn::Module& module) {
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* block = child->as<Block>()) torch::nn::init::zeros_(block->last_norm()->weight);
  }
}

}  // namespace

ResNet::ResNet(const ResNetOptions& options)
    : Network("ResNet"),
      conv1_(register_module(
          "conv1",
          torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)))),
      bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))),
      stages_{nullptr, nullptr, nullptr, nullptr} {
  const bool basic = options.depth == ResNetDepth::k18 || options.depth == ResNetDepth::k34;
  const auto counts = blocks_per_stage(options.depth);
  std::int64_t channels = 64;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const std::int64_t stride = i == 0 ? 1 : 2;
    stages_[i] =
        register_module("layer" + std::to_string(i + 1),
                        basic ? make_stage<BasicBlock>(channels, kWidths[i], counts[i], stride)
                              : make_stage<Bottleneck>(channels, kWidths[i], counts[i], stride));
  }
  fc_ = register_module("fc", Linear(channels, options.classes));

  for (const auto& child : modules(/*include_self=*/false)) {
    if (auto* conv = child->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
  if (options.zero_init_residual) {
    zero_last_norms<BasicBlock>(*this);
    zero_last_norms<Bottleneck>(*this);
  }
}

torch::Tensor ResNet::forward(torch::Tensor images) {
  auto x = bn1_(conv1_(images)).relu_();
  x = torch::max_pool2d(x, 3, 2, 1);
  for (auto& stage : stages_) x = stage->forward(x);
  x = torch::adaptive_avg_pool2d(x, {1, 1});
  return fc_(x.flatten(1));
}

}  // namespace convoy::model
