#include "convoy/model/resnet.h"

#include <string>

#include "convoy/base/error.h"
#include "model/zoo/chain.h"

namespace convoy::model {
namespace {

constexpr std::array<std::int64_t, 4> kWidths{64, 128, 256, 512};

std::array<std::int64_t, 4> blocks_per_group(ResNetDepth depth) {
  switch (depth) {
    case ResNetDepth::k18:
      return {2, 2, 2, 2};
    case ResNetDepth::k34:
    case ResNetDepth::k50:
      return {3, 4, 6, 3};
    case ResNetDepth::k101:
      return {3, 4, 23, 3};
  }
  throw UsageError("not a depth of ResNet: " + std::to_string(static_cast<int>(depth)));
}

layer::Convolution conv(std::int64_t in, std::int64_t out, std::int64_t size,
                        std::int64_t stride = 1) {
  const std::int64_t padding = size / 2;
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {padding, padding},
          .bias = false,
          .first = layer::Weights::fan_out_normal};
}

struct Block {
  std::string name;
  std::int64_t in, width, out, stride;
  double last_weight;  // of the last batch normalization, at the start
};

// The sum of what the block computes and of its input, projected where shapes differ.
StageSpec with_shortcut(Chain chain, const Block& block) {
  const std::string computed = chain.last();
  std::string shortcut = "input";
  if (block.stride != 1 || block.in != block.out) {
    chain.add(block.name + ".downsample.0", conv(block.in, block.out, 1, block.stride), {"input"})
        .add(block.name + ".downsample.1", layer::BatchNorm{block.out});
    shortcut = chain.last();
  }
  return chain.add(block.name + ".add", layer::Add(), {computed, shortcut})
      .add(block.name + ".relu", layer::Relu())
      .done();
}

StageSpec basic_block(const Block& b) {
  Chain chain(b.name);
  chain.add(b.name + ".conv1", conv(b.in, b.width, 3, b.stride))
      .add(b.name + ".bn1", layer::BatchNorm{b.width})
      .add(b.name + ".relu1", layer::Relu())
      .add(b.name + ".conv2", conv(b.width, b.out, 3))
      .add(b.name + ".bn2", layer::BatchNorm{b.out, b.last_weight});
  return with_shortcut(std::move(chain), b);
}

// With the stride in the 3 x 3 convolution.
StageSpec bottleneck(const Block& b) {
  Chain chain(b.name);
  chain.add(b.name + ".conv1", conv(b.in, b.width, 1))
      .add(b.name + ".bn1", layer::BatchNorm{b.width})
      .add(b.name + ".relu1", layer::Relu())
      .add(b.name + ".conv2", conv(b.width, b.width, 3, b.stride))
      .add(b.name + ".bn2", layer::BatchNorm{b.width})
      .add(b.name + ".relu2", layer::Relu())
      .add(b.name + ".conv3", conv(b.width, b.out, 1))
      .add(b.name + ".bn3", layer::BatchNorm{b.out, b.last_weight});
  return with_shortcut(std::move(chain), b);
}

}  // namespace

Blueprint resnet(const ResNetOptions& options) {
  const bool basic = options.depth == ResNetDepth::k18 || options.depth == ResNetDepth::k34;
  const auto counts = blocks_per_group(options.depth);
  Blueprint net{"ResNet", {{3, 224, 224}}, {}};
  net.stages.push_back(
      Chain("stem")
          .add("conv1", conv(3, 64, 7, 2))
          .add("bn1", layer::BatchNorm{64})
          .add("relu", layer::Relu())
          .add("maxpool", layer::MaxPool{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})
          .done());
  std::int64_t channels = 64;
  for (std::size_t group = 0; group < counts.size(); ++group) {
    for (std::int64_t i = 0; i < counts[group]; ++i) {
      const std::int64_t width = kWidths[group], out = basic ? width : 4 * width;
      const Block block{"layer" + std::to_string(group + 1) + "." + std::to_string(i),
                        channels,
                        width,
                        out,
                        group > 0 && i == 0 ? 2 : 1,
                        options.zero_init_residual ? 0.0 : 1.0};
      net.stages.push_back(basic ? basic_block(block) : bottleneck(block));
      channels = out;
    }
  }
  net.stages.push_back(Chain("head")
                           .add("avgpool", layer::AdaptiveAveragePool())
                           .add("flatten", layer::Flatten())
                           .add("fc", layer::Linear{channels, options.classes})
                           .done());
  return net;
}

}  // namespace convoy::model
