#include "convoy/model/resnet.h"

#include <string>

#include "convoy/base/error.h"
#include "convoy/model/small_images.h"
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

layer::Convolution same_size_conv(std::int64_t in, std::int64_t out, std::int64_t size,
                                  std::int64_t stride = 1, bool bias = false) {
  const std::int64_t padding = size / 2;
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {padding, padding},
          .bias = bias,
          .first = layer::Weights::fan_out_normal};
}

struct Block {
  std::string name;
  std::int64_t in, width, out, stride;
  double last_weight;  // of the last batch normalization, at the start
  // Of networks for small images: convolutions with biases, shortcuts without parameters.
  bool small = false;
};

// The sum of what the block computes and of its input, which is given the shape of it where shapes
// differ.
StageSpec with_shortcut(Chain chain, const Block& block) {
  const std::string computed = chain.last();
  std::string shortcut = "input";
  const bool differs = block.stride != 1 || block.in != block.out;
  if (differs && block.small) {
    chain.add(block.name + ".shortcut", layer::Subsample{block.out, {block.stride, block.stride}},
              {"input"});
    shortcut = chain.last();
  } else if (differs) {
    chain
        .add(block.name + ".downsample.0", same_size_conv(block.in, block.out, 1, block.stride),
             {"input"})
        .add(block.name + ".downsample.1", layer::BatchNorm{block.out});
    shortcut = chain.last();
  }
  return chain.add(block.name + ".add", layer::Add(), {computed, shortcut})
      .add(block.name + ".relu", layer::Relu())
      .done();
}

StageSpec basic_block(const Block& b) {
  Chain chain(b.name);
  chain.add(b.name + ".conv1", same_size_conv(b.in, b.width, 3, b.stride, b.small))
      .add(b.name + ".bn1", layer::BatchNorm{b.width})
      .add(b.name + ".relu1", layer::Relu())
      .add(b.name + ".conv2", same_size_conv(b.width, b.out, 3, 1, b.small))
      .add(b.name + ".bn2", layer::BatchNorm{b.out, b.last_weight});
  return with_shortcut(std::move(chain), b);
}

// With the stride in the 3 x 3 convolution.
StageSpec bottleneck(const Block& b) {
  Chain chain(b.name);
  chain.add(b.name + ".conv1", same_size_conv(b.in, b.width, 1))
      .add(b.name + ".bn1", layer::BatchNorm{b.width})
      .add(b.name + ".relu1", layer::Relu())
      .add(b.name + ".conv2", same_size_conv(b.width, b.width, 3, b.stride))
      .add(b.name + ".bn2", layer::BatchNorm{b.width})
      .add(b.name + ".relu2", layer::Relu())
      .add(b.name + ".conv3", same_size_conv(b.width, b.out, 1))
      .add(b.name + ".bn3", layer::BatchNorm{b.out, b.last_weight});
  return with_shortcut(std::move(chain), b);
}

StageSpec head(std::int64_t channels, std::int64_t classes) {
  return Chain("head")
      .add("avgpool", layer::AdaptiveAveragePool())
      .add("flatten", layer::Flatten())
      .add("fc", layer::Linear{channels, classes})
      .done();
}

// "layer2.0", both counted from 0.
std::string block_name(std::size_t group, std::int64_t block) {
  return "layer" + std::to_string(group + 1) + "." + std::to_string(block);
}

}  // namespace

Blueprint resnet(const ResNetOptions& options) {
  const bool basic = options.depth == ResNetDepth::k18 || options.depth == ResNetDepth::k34;
  const auto counts = blocks_per_group(options.depth);
  Blueprint net{"ResNet", {{3, 224, 224}}, {}};
  net.stages.push_back(
      Chain("stem")
          .add("conv1", same_size_conv(3, 64, 7, 2))
          .add("bn1", layer::BatchNorm{64})
          .add("relu", layer::Relu())
          .add("maxpool", layer::MaxPool{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})
          .done());
  std::int64_t channels = 64;
  for (std::size_t group = 0; group < counts.size(); ++group) {
    for (std::int64_t i = 0; i < counts[group]; ++i) {
      const std::int64_t width = kWidths[group], out = basic ? width : 4 * width;
      const Block block{block_name(group, i),
                        channels,
                        width,
                        out,
                        group > 0 && i == 0 ? 2 : 1,
                        options.zero_init_residual ? 0.0 : 1.0};
      net.stages.push_back(basic ? basic_block(block) : bottleneck(block));
      channels = out;
    }
  }
  net.stages.push_back(head(channels, options.classes));
  return net;
}

Blueprint small_resnet(int layers, std::int64_t classes, bool zero_init_residual) {
  constexpr int kInBlock = 2, kOutside = 2;  // layers
  constexpr std::array<std::int64_t, 3> kSmallWidths{16, 32, 64};
  constexpr int kEach = kInBlock * static_cast<int>(kSmallWidths.size());
  if (layers < kEach + kOutside || (layers - kOutside) % kEach != 0) {
    throw UsageError("not a number of layers of the small ResNet: " + std::to_string(layers) +
                     "; it has 6 n + 2, as 20");
  }
  std::int64_t channels = kSmallWidths.front();
  Blueprint net{"ResNet", {{3, 32, 32}}, {}};
  net.stages.push_back(Chain("stem")
                           .add("conv1", same_size_conv(3, channels, 3, 1, true))
                           .add("bn1", layer::BatchNorm{channels})
                           .add("relu", layer::Relu())
                           .done());
  for (std::size_t group = 0; group < kSmallWidths.size(); ++group) {
    for (std::int64_t i = 0; i < (layers - kOutside) / kEach; ++i) {
      const std::int64_t width = kSmallWidths[group];
      net.stages.push_back(basic_block({.name = block_name(group, i),
                                        .in = channels,
                                        .width = width,
                                        .out = width,
                                        .stride = group > 0 && i == 0 ? 2 : 1,
                                        .last_weight = zero_init_residual ? 0.0 : 1.0,
                                        .small = true}));
      channels = width;
    }
  }
  net.stages.push_back(head(channels, classes));
  return net;
}

}  // namespace convoy::model
