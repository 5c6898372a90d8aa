#include "convoy/model/mobilenet.h"

#include <array>
#include <string>

#include "model/zoo/chain.h"

namespace convoy::model {
namespace {

// Blocks of one width.
struct Widths {
  std::int64_t expansion, out, blocks, stride;  // of the first of them
};
constexpr std::array<Widths, 7> kBlocks{{{1, 16, 1, 1},
                                         {6, 24, 2, 2},
                                         {6, 32, 3, 2},
                                         {6, 64, 4, 2},
                                         {6, 96, 3, 1},
                                         {6, 160, 3, 2},
                                         {6, 320, 1, 1}}};
constexpr std::int64_t kStem = 32, kLast = 1280;

layer::Convolution unbiased_conv(std::int64_t in, std::int64_t out, std::int64_t size,
                                 std::int64_t stride, std::int64_t groups = 1) {
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {size / 2, size / 2},
          .groups = groups,
          .bias = false,
          .first = layer::Weights::fan_out_normal};
}

// NAME.0, NAME.1 and NAME.2.
Chain& add_activated(Chain& chain, const std::string& name, const layer::Convolution& convolution) {
  return chain.add(name + ".0", convolution)
      .add(name + ".1", layer::BatchNorm{convolution.out})
      .add(name + ".2", layer::Relu6());
}

StageSpec inverted_residual(const std::string& name, std::int64_t in, const Widths& widths,
                            std::int64_t stride) {
  Chain chain(name);
  const std::int64_t inner = in * widths.expansion;
  int number = 0;
  const auto next = [&] { return name + ".conv." + std::to_string(number++); };
  if (widths.expansion != 1) add_activated(chain, next(), unbiased_conv(in, inner, 1, 1));
  add_activated(chain, next(), unbiased_conv(inner, inner, 3, stride, inner));
  chain.add(next(), unbiased_conv(inner, widths.out, 1, 1));
  chain.add(next(), layer::BatchNorm{widths.out});
  if (stride == 1 && in == widths.out)
    chain.add(name + ".add", layer::Add(), {chain.last(), "input"});
  return chain.done();
}

}  // namespace

Blueprint mobilenet_v2(const MobileNetOptions& options) {
  Blueprint net{"MobileNetV2", {{3, 224, 224}}, {}};
  Chain stem("stem");
  net.stages.push_back(add_activated(stem, "features.0", unbiased_conv(3, kStem, 3, 2)).done());
  std::int64_t channels = kStem;
  for (const Widths& widths : kBlocks) {
    for (std::int64_t i = 0; i < widths.blocks; ++i) {
      net.stages.push_back(inverted_residual("features." + std::to_string(net.stages.size()),
                                             channels, widths, i == 0 ? widths.stride : 1));
      channels = widths.out;
    }
  }
  Chain head("head");
  add_activated(head, "features." + std::to_string(net.stages.size()),
                unbiased_conv(channels, kLast, 1, 1));
  net.stages.push_back(head.add("avgpool", layer::AdaptiveAveragePool())
                           .add("flatten", layer::Flatten())
                           .add("classifier.0", layer::Dropout{options.dropout})
                           .add("classifier.1", layer::Linear{.in = kLast,
                                                              .out = options.classes,
                                                              .first = layer::Weights::small_normal,
                                                              .zero_bias = true})
                           .done());
  return net;
}

}  // namespace convoy::model
