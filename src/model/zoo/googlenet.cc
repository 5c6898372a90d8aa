#include "convoy/model/googlenet.h"

#include <array>
#include <string>
#include <utility>

#include "model/zoo/inception.h"

namespace convoy::model {
namespace {

// Maps of an inception module; `before` are those that the first convolution of a branch leaves.
struct Inception {
  const char* name;
  std::int64_t one, before_three, three, before_five, five, pooled;
  std::int64_t out() const { return one + three + five + pooled; }
};

constexpr std::array<Inception, 9> kInceptions{{{"inception3a", 64, 96, 128, 16, 32, 32},
                                                {"inception3b", 128, 128, 192, 32, 96, 64},
                                                {"inception4a", 192, 96, 208, 16, 48, 64},
                                                {"inception4b", 160, 112, 224, 24, 64, 64},
                                                {"inception4c", 128, 128, 256, 24, 64, 64},
                                                {"inception4d", 112, 144, 288, 32, 64, 64},
                                                {"inception4e", 256, 160, 320, 32, 128, 128},
                                                {"inception5a", 256, 160, 320, 32, 128, 128},
                                                {"inception5b", 384, 192, 384, 48, 128, 128}}};

constexpr layer::MaxPool kHalf{.kernel = {3, 3}, .stride = {2, 2}, .ceil = true};
constexpr layer::MaxPool kSmallHalf{.kernel = {2, 2}, .stride = {2, 2}, .ceil = true};

layer::Convolution inception_conv(std::int64_t in, std::int64_t out, std::int64_t size,
                                  std::int64_t stride = 1) {
  return {.in = in,
          .out = out,
          .kernel = {size, size},
          .stride = {stride, stride},
          .padding = {size / 2, size / 2},
          .bias = false,
          .first = layer::Weights::small_normal};
}

layer::Linear inception_linear(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .first = layer::Weights::small_normal};
}

// To a chain, or to a branch.
template <class To>
void add_normalized(To& to, const std::string& name, const layer::Convolution& convolution) {
  to.add(name + ".conv", convolution);
  to.add(name + ".bn", layer::BatchNorm{.channels = convolution.out, .epsilon = kInceptionEpsilon});
  to.add(name + ".relu", layer::Relu());
}

void add_inception(Chain& chain, const Inception& own, std::int64_t in) {
  const std::string name = own.name;
  Branches branches(chain);
  add_normalized(branches, name + ".branch1", inception_conv(in, own.one, 1));
  branches.end();
  branches.begin();
  add_normalized(branches, name + ".branch2.0", inception_conv(in, own.before_three, 1));
  add_normalized(branches, name + ".branch2.1", inception_conv(own.before_three, own.three, 3));
  branches.end();
  branches.begin();
  add_normalized(branches, name + ".branch3.0", inception_conv(in, own.before_five, 1));
  add_normalized(branches, name + ".branch3.1", inception_conv(own.before_five, own.five, 3));
  branches.end();
  branches.begin();
  branches.add(name + ".branch4.0",
               layer::MaxPool{.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  add_normalized(branches, name + ".branch4.1", inception_conv(in, own.pooled, 1));
  branches.end();
  branches.join(name + ".concatenate");
}

StageSpec auxiliary_classifier(const std::string& name, std::int64_t in,
                               const GoogLeNetOptions& options) {
  constexpr std::int64_t kGrid = 4, kMaps = 128, kHidden = 1024;
  Chain chain(name);
  chain.add(name + ".avgpool", layer::AdaptiveAveragePool{{kGrid, kGrid}});
  add_normalized(chain, name + ".conv", inception_conv(in, kMaps, 1));
  return chain.add(name + ".flatten", layer::Flatten())
      .add(name + ".fc1", inception_linear(kMaps * kGrid * kGrid, kHidden))
      .add(name + ".relu", layer::Relu())
      .add(name + ".dropout", layer::Dropout{options.auxiliary_dropout})
      .add(name + ".fc2", inception_linear(kHidden, options.classes))
      .done();
}

StageSpec googlenet_stem() {
  Chain stem("stem");
  add_normalized(stem, "conv1", inception_conv(3, 64, 7, 2));
  stem.add("maxpool1", kHalf);
  add_normalized(stem, "conv2", inception_conv(64, 64, 1));
  add_normalized(stem, "conv3", inception_conv(64, 192, 3));
  return stem.add("maxpool2", kHalf).done();
}

}  // namespace

Blueprint googlenet(const GoogLeNetOptions& options) {
  Blueprint net{"GoogLeNet", {{3, 224, 224}}, {}};
  AuxiliaryStages stages(net);
  stages.add(googlenet_stem());
  std::int64_t channels = 192;
  for (const Inception& own : kInceptions) {
    const std::string name = own.name;
    Chain chain(name);
    add_inception(chain, own, channels);
    if (name == "inception3b") chain.add("maxpool3", kHalf);
    if (name == "inception4e") chain.add("maxpool4", kSmallHalf);
    stages.add(chain.done());
    channels = own.out();
    if (!options.auxiliary) continue;
    if (name == "inception4a")
      stages.add_classifier(auxiliary_classifier("aux1", channels, options), kAuxiliaryWeight);
    if (name == "inception4d")
      stages.add_classifier(auxiliary_classifier("aux2", channels, options), kAuxiliaryWeight);
  }
  stages.add(Chain("head")
                 .add("avgpool", layer::AdaptiveAveragePool())
                 .add("flatten", layer::Flatten())
                 .add("dropout", layer::Dropout{options.dropout})
                 .add("fc", inception_linear(channels, options.classes))
                 .done());
  return net;
}

}  // namespace convoy::model
