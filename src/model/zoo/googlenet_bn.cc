#include <array>
#include <string>
#include <utility>

#include "convoy/model/googlenet.h"
#include "model/zoo/inception.h"

namespace convoy::model {
namespace {

// Maps of an inception module: those of the first branch (0: there is none), those that the
// convolutions of 1 x 1 and of 3 x 3 leave in the second and the third (which has two of 3 x 3),
// and those of the fourth (0: what is pooled itself).
struct NormalizedInception {
  const char* name;
  std::int64_t one, before_three, three, before_twice, twice, pooled;
  bool maxima = false;  // pooled: maxima, not means
  std::int64_t out(std::int64_t in) const {
    return one + three + twice + (pooled > 0 ? pooled : in);
  }
};

constexpr std::array<NormalizedInception, 10> kNormalized{
    {{"inception3a", 64, 64, 64, 64, 96, 32},
     {"inception3b", 64, 64, 96, 64, 96, 64},
     {"inception3c", 0, 128, 160, 64, 96, 0, true},
     {"inception4a", 224, 64, 96, 96, 128, 128},
     {"inception4b", 192, 96, 128, 96, 128, 128},
     {"inception4c", 160, 128, 160, 128, 160, 96},
     {"inception4d", 96, 128, 192, 160, 192, 96},
     {"inception4e", 0, 128, 192, 192, 256, 0, true},
     {"inception5a", 352, 192, 320, 160, 224, 128},
     {"inception5b", 352, 192, 320, 192, 224, 128, true}}};

constexpr layer::MaxPool kTorchHalf{.kernel = {3, 3}, .stride = {2, 2}, .ceil = true};

layer::Convolution torch_conv(std::int64_t in, std::int64_t out, std::int64_t size,
                              std::int64_t stride = 1, std::int64_t padding = 0) {
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {padding, padding}};
}

layer::BatchNorm torch_norm(std::int64_t channels) {
  return {.channels = channels, .epsilon = kInceptionEpsilon};
}

void add_torch_conv(Chain& chain, const std::string& name, const layer::Convolution& convolution) {
  chain.add(name + ".conv", convolution)
      .add(name + ".bn", torch_norm(convolution.out))
      .add(name + ".relu", layer::Relu());
}

// In inception modules there is a ReLU before the normalization as well.
void add_twice_rectified(Branches& branches, const std::string& name,
                         const layer::Convolution& convolution) {
  branches.add(name + ".conv", convolution);
  branches.add(name + ".first_relu", layer::Relu());
  branches.add(name + ".bn", torch_norm(convolution.out));
  branches.add(name + ".relu", layer::Relu());
}

void add_pool(Branches& branches, const std::string& name, bool maxima) {
  constexpr layer::Pair kKernel{3, 3}, kStride{1, 1}, kPadding{1, 1};
  if (maxima) {
    branches.add(name, layer::MaxPool{.kernel = kKernel, .stride = kStride, .padding = kPadding});
  } else {
    branches.add(name, layer::AveragePool{kKernel, kStride, kPadding});
  }
}

StageSpec normalized_inception(const NormalizedInception& own, std::int64_t in) {
  const std::string name = own.name;
  Chain chain(name);
  Branches branches(chain);
  if (own.one > 0) {
    add_twice_rectified(branches, name + ".branch1", torch_conv(in, own.one, 1));
    branches.end();
    branches.begin();
  }
  const std::string second = name + ".branch2", third = name + ".branch3";
  add_twice_rectified(branches, second + ".0", torch_conv(in, own.before_three, 1));
  add_twice_rectified(branches, second + ".1", torch_conv(own.before_three, own.three, 3, 1, 1));
  branches.end();
  branches.begin();
  add_twice_rectified(branches, third + ".0", torch_conv(in, own.before_twice, 1));
  add_twice_rectified(branches, third + ".1", torch_conv(own.before_twice, own.twice, 3, 1, 1));
  add_twice_rectified(branches, third + ".2", torch_conv(own.twice, own.twice, 3, 1, 1));
  branches.end();
  branches.begin();
  add_pool(branches, name + ".branch4.0", own.maxima);
  if (own.pooled > 0)
    add_twice_rectified(branches, name + ".branch4.1", torch_conv(in, own.pooled, 1));
  branches.end();
  branches.join(name + ".concatenate");
  return chain.done();
}

StageSpec reduction(const std::string& name, std::int64_t channels) {
  Chain chain(name);
  add_torch_conv(chain, name, torch_conv(channels, channels, 2, 2));
  return chain.done();
}

StageSpec torch_stem() {
  Chain stem("stem");
  add_torch_conv(stem, "conv1", torch_conv(3, 64, 7, 2, 3));
  stem.add("pool1", kTorchHalf);
  add_torch_conv(stem, "conv2", torch_conv(64, 64, 1));
  add_torch_conv(stem, "conv3", torch_conv(64, 192, 3, 1, 1));
  return stem.add("pool2", kTorchHalf).done();
}

StageSpec torch_classifier(std::int64_t in, std::int64_t classes) {
  constexpr std::int64_t kGrid = 4, kMaps = 128, kHidden = 768;
  Chain chain("aux");
  chain.add("aux.pool", layer::AveragePool{.kernel = {5, 5}, .stride = {3, 3}});
  add_torch_conv(chain, "aux.conv", torch_conv(in, kMaps, 1));
  return chain.add("aux.flatten", layer::Flatten())
      .add("aux.fc1", layer::Linear{.in = kMaps * kGrid * kGrid, .out = kHidden})
      .add("aux.relu", layer::Relu())
      .add("aux.fc2", layer::Linear{.in = kHidden, .out = classes})
      .done();
}

}  // namespace

Blueprint googlenet_bn(const GoogLeNetBnOptions& options) {
  Blueprint net{"GoogLeNet-BN", {{3, 224, 224}}, {}};
  AuxiliaryStages stages(net);
  stages.add(torch_stem());
  std::int64_t channels = 192;
  for (const NormalizedInception& own : kNormalized) {
    stages.add(normalized_inception(own, channels));
    channels = own.out(channels);
    const std::string name = own.name;
    if (name == "inception3c") stages.add(reduction("reduction3", channels));
    if (name == "inception4d" && options.auxiliary)
      stages.add_classifier(torch_classifier(channels, options.classes), kAuxiliaryWeight);
    if (name == "inception4e") stages.add(reduction("reduction4", channels));
  }
  stages.add(Chain("head")
                 .add("pool", layer::AveragePool{.kernel = {7, 7}, .stride = {1, 1}})
                 .add("flatten", layer::Flatten())
                 .add("fc", layer::Linear{.in = channels, .out = options.classes})
                 .done());
  return net;
}

}  // namespace convoy::model
