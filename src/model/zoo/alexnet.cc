#include "convoy/model/alexnet.h"

#include "model/zoo/chain.h"

namespace convoy::model {
namespace {

// The averages that the fully connected layers see are of 6 x 6.
constexpr std::int64_t kGrid = 6;

layer::Convolution strided_conv(std::int64_t in, std::int64_t out, std::int64_t size,
                                std::int64_t padding, std::int64_t stride = 1) {
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {padding, padding}};
}

}  // namespace

Blueprint alexnet(const AlexNetOptions& options) {
  constexpr layer::MaxPool kPool{.kernel = {3, 3}, .stride = {2, 2}};
  const auto& w = options.widths;
  Blueprint net{"AlexNet", {{3, 224, 224}}, {}};
  net.stages.push_back(Chain("conv1")
                           .add("features.0", strided_conv(3, w[0], 11, 2, 4))
                           .add("features.1", layer::Relu())
                           .add("features.2", kPool)
                           .done());
  net.stages.push_back(Chain("conv2")
                           .add("features.3", strided_conv(w[0], w[1], 5, 2))
                           .add("features.4", layer::Relu())
                           .add("features.5", kPool)
                           .done());
  net.stages.push_back(Chain("conv3")
                           .add("features.6", strided_conv(w[1], w[2], 3, 1))
                           .add("features.7", layer::Relu())
                           .done());
  net.stages.push_back(Chain("conv4")
                           .add("features.8", strided_conv(w[2], w[3], 3, 1))
                           .add("features.9", layer::Relu())
                           .done());
  net.stages.push_back(Chain("conv5")
                           .add("features.10", strided_conv(w[3], w[4], 3, 1))
                           .add("features.11", layer::Relu())
                           .add("features.12", kPool)
                           .add("avgpool", layer::AdaptiveAveragePool{{kGrid, kGrid}})
                           .done());
  const std::int64_t hidden = options.hidden;
  net.stages.push_back(Chain("fc6")
                           .add("flatten", layer::Flatten())
                           .add("classifier.0", layer::Dropout{options.dropout})
                           .add("classifier.1", layer::Linear{w[4] * kGrid * kGrid, hidden})
                           .add("classifier.2", layer::Relu())
                           .done());
  net.stages.push_back(Chain("fc7")
                           .add("classifier.3", layer::Dropout{options.dropout})
                           .add("classifier.4", layer::Linear{hidden, hidden})
                           .add("classifier.5", layer::Relu())
                           .done());
  net.stages.push_back(
      Chain("fc8").add("classifier.6", layer::Linear{hidden, options.classes}).done());
  return net;
}

}  // namespace convoy::model
