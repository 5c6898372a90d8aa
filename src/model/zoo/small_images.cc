#include "convoy/model/small_images.h"

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "model/zoo/chain.h"

namespace convoy::model {
namespace {

layer::Convolution padded_conv(std::int64_t in, std::int64_t out, std::int64_t size,
                               std::int64_t padding = 0) {
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .padding = {padding, padding},
          .first = layer::Weights::fan_out_normal};
}

StageSpec pooled(const std::string& number, const layer::Convolution& convolution,
                 const layer::MaxPool& pool) {
  return Chain("conv" + number)
      .add("conv" + number, convolution)
      .add("relu" + number, layer::Relu())
      .add("pool" + number, pool)
      .done();
}

void add_two_linear(Blueprint& net, std::int64_t in, std::int64_t hidden, std::int64_t classes) {
  net.stages.push_back(Chain("fc1")
                           .add("flatten", layer::Flatten())
                           .add("fc1", layer::Linear{.in = in, .out = hidden})
                           .add("relu", layer::Relu())
                           .done());
  net.stages.push_back(Chain("fc2").add("fc2", layer::Linear{.in = hidden, .out = classes}).done());
}

// Widths by group.
std::vector<std::vector<std::int64_t>> groups_of(int layers) {
  if (layers == 9) return {{64, 64}, {64, 64}, {128}, {256}, {256}};
  if (layers == 11) return {{64, 64}, {64, 64}, {128, 128}, {256, 256}, {256}};
  throw UsageError("not a number of layers of the small VGG: " + std::to_string(layers) +
                   "; it has 9 or 11");
}

// A hidden fully connected layer, behind what it drops of its input.
StageSpec dropped_linear(const std::string& name, Chain chain, double dropout,
                         const layer::Linear& linear) {
  return chain.add("dropout" + name, layer::Dropout{dropout})
      .add("fc" + name, linear)
      .add("relu" + name, layer::Relu())
      .done();
}

}  // namespace

Blueprint lenet_of_width(std::int64_t w, std::int64_t classes) {
  if (w < 1) throw UsageError("LeNet's width is " + std::to_string(w) + "; it has to be from 1");
  constexpr layer::MaxPool kPool{.kernel = {3, 3}, .stride = {2, 2}};
  Blueprint net{"LeNet", {{1, 28, 28}}, {}};
  net.stages.push_back(pooled("1", padded_conv(1, 16 * w, 5), kPool));
  net.stages.push_back(pooled("2", padded_conv(16 * w, 32 * w, 5), kPool));
  add_two_linear(net, 32 * w * 3 * 3, 100 * w, classes);
  return net;
}

Blueprint lenet_for_color(std::int64_t classes) {
  Blueprint net{"LeNet", {{3, 32, 32}}, {}};
  net.stages.push_back(
      pooled("1", padded_conv(3, 64, 3), layer::MaxPool{.kernel = {3, 3}, .stride = {3, 3}}));
  net.stages.push_back(pooled("2", padded_conv(64, 128, 3), layer::MaxPool()));
  add_two_linear(net, 128 * 4 * 4, 200, classes);
  return net;
}

Blueprint small_vgg(int layers, std::int64_t classes) {
  Blueprint net{"VGG", {{3, 32, 32}}, {}};
  std::int64_t channels = 3;
  int group = 0, number = 0;
  for (const std::vector<std::int64_t>& widths : groups_of(layers)) {
    Chain chain("group" + std::to_string(++group));
    for (const std::int64_t width : widths) {
      const std::string suffix = std::to_string(++number);
      chain.add("conv" + suffix, padded_conv(channels, width, 3, 1))
          .add("relu" + suffix, layer::Relu());
      channels = width;
    }
    net.stages.push_back(chain.add("pool" + std::to_string(group), layer::MaxPool()).done());
  }
  add_two_linear(net, channels, 200, classes);
  return net;
}

Blueprint small_one_tower(const SmallOneTowerOptions& options) {
  constexpr layer::MaxPool kPool{.kernel = {3, 3}, .stride = {2, 2}};
  Blueprint net{"AlexNet", {{3, 32, 32}}, {}};
  layer::Convolution first = padded_conv(3, 32, 5, 2);
  first.stride = {2, 2};
  net.stages.push_back(pooled("1", first, kPool));
  net.stages.push_back(pooled("2", padded_conv(32, 64, 3, 1), kPool));
  std::int64_t channels = 64;
  int number = 2;
  for (const std::int64_t width : {96, 96, 64}) {
    const std::string suffix = std::to_string(++number);
    net.stages.push_back(Chain("conv" + suffix)
                             .add("conv" + suffix, padded_conv(channels, width, 3, 1))
                             .add("relu" + suffix, layer::Relu())
                             .done());
    channels = width;
  }
  Chain flat("fc6");
  flat.add("flatten", layer::Flatten());
  net.stages.push_back(
      dropped_linear("6", flat, options.dropout, {.in = channels * 3 * 3, .out = options.hidden}));
  net.stages.push_back(dropped_linear("7", Chain("fc7"), options.dropout,
                                      {.in = options.hidden, .out = options.hidden}));
  net.stages.push_back(
      Chain("fc8").add("fc8", layer::Linear{.in = options.hidden, .out = options.classes}).done());
  return net;
}

}  // namespace convoy::model
