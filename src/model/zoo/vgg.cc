#include "convoy/model/vgg.h"

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "model/zoo/chain.h"

namespace convoy::model {
namespace {

// The averages that the fully connected layers see are of 7 x 7.
constexpr std::int64_t kVggGrid = 7;

// Maps of the convolutions, by group.
std::vector<std::vector<std::int64_t>> maps_of(int layers) {
  if (layers == 11) return {{64}, {128}, {256, 256}, {512, 512}, {512, 512}};
  if (layers == 16)
    return {{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  throw UsageError("not a number of layers of VGG: " + std::to_string(layers) +
                   "; it has 11 or 16");
}

layer::Convolution vgg_conv(std::int64_t in, std::int64_t out) {
  return {.in = in,
          .out = out,
          .kernel = {3, 3},
          .padding = {1, 1},
          .first = layer::Weights::fan_out_normal,
          .zero_bias = true};
}

layer::Linear vgg_linear(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .first = layer::Weights::small_normal, .zero_bias = true};
}

}  // namespace

Blueprint vgg(const VggOptions& options) {
  Blueprint net{"VGG", {{3, 224, 224}}, {}};
  int number = 0;  // of the module in torchvision's list
  const auto feature = [&number] { return "features." + std::to_string(number++); };
  std::int64_t channels = 3;
  for (const std::vector<std::int64_t>& maps : maps_of(options.layers)) {
    Chain group("group" + std::to_string(net.stages.size() + 1));
    for (const std::int64_t out : maps) {
      group.add(feature(), vgg_conv(channels, out));
      if (options.batch_norm) group.add(feature(), layer::BatchNorm{out});
      group.add(feature(), layer::Relu());
      channels = out;
    }
    net.stages.push_back(group.add(feature(), layer::MaxPool()).done());
  }
  const std::int64_t hidden = options.hidden;
  net.stages.push_back(Chain("fc6")
                           .add("avgpool", layer::AdaptiveAveragePool{{kVggGrid, kVggGrid}})
                           .add("flatten", layer::Flatten())
                           .add("classifier.0", vgg_linear(channels * kVggGrid * kVggGrid, hidden))
                           .add("classifier.1", layer::Relu())
                           .add("classifier.2", layer::Dropout{options.dropout})
                           .done());
  net.stages.push_back(Chain("fc7")
                           .add("classifier.3", vgg_linear(hidden, hidden))
                           .add("classifier.4", layer::Relu())
                           .add("classifier.5", layer::Dropout{options.dropout})
                           .done());
  net.stages.push_back(
      Chain("fc8").add("classifier.6", vgg_linear(hidden, options.classes)).done());
  return net;
}

}  // namespace convoy::model
