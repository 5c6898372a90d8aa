#include "convoy/model/lenet.h"

#include "model/zoo/chain.h"

namespace convoy::model {

Blueprint lenet(std::int64_t classes) {
  constexpr auto kXavier = layer::Weights::xavier;
  const auto conv = [](std::int64_t in, std::int64_t out) {
    return layer::Convolution{.in = in, .out = out, .kernel = {5, 5}, .first = kXavier};
  };
  const auto linear = [](std::int64_t in, std::int64_t out) {
    return layer::Linear{.in = in, .out = out, .first = kXavier};
  };
  Blueprint net{"LeNet", {{1, 28, 28}}, {}};
  net.stages.push_back(
      Chain("conv1").add("conv1", conv(1, 20)).add("pool1", layer::MaxPool()).done());
  net.stages.push_back(
      Chain("conv2").add("conv2", conv(20, 50)).add("pool2", layer::MaxPool()).done());
  net.stages.push_back(Chain("fc1")
                           .add("flatten", layer::Flatten())
                           .add("fc1", linear(50 * 4 * 4, 500))
                           .add("relu", layer::Relu())
                           .done());
  net.stages.push_back(Chain("fc2").add("fc2", linear(500, classes)).done());
  return net;
}

}  // namespace convoy::model
