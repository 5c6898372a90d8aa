// Networks with auxiliary classifiers, and how networks of torchvision's begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/googlenet.h"
#include "convoy/model/mobilenet.h"
#include "convoy/model/resnet.h"
#include "convoy/model/vgg.h"
#include "tests/base/scratch.h"

namespace convoy::model {
namespace {

using test::message_of;

// Of Kumar et al. 2017: the payload is 93 MB there. By hand, the fully connected layers of the
// auxiliary classifier and its convolution with its normalization; torchvision's counts for its
// own.
TEST(Cost, OfAuxiliaryClassifiers) {
  const auto parameters = [](const Blueprint& net) { return cost_of(net, net.inputs).parameters; };
  const std::int64_t classifier = 576 * 128 + 3 * 128 + 2048 * 768 + 768 + 768 * 1000 + 1000;
  EXPECT_EQ(parameters(googlenet_bn()), 19147888);
  EXPECT_EQ(parameters(googlenet_bn({.auxiliary = false})), 19147888 - classifier);
  EXPECT_NEAR(4 * 19147888 / 1e6, 76.6, 0.05);
  EXPECT_EQ(parameters(googlenet()), 13004888);
}

TEST(Vgg, HasElevenLayersOrSixteen) {
  EXPECT_EQ(message_of<UsageError>([] { vgg({.layers = 13}); }),
            "not a number of layers of VGG: 13; it has 11 or 16");
}

// torchvision's: by fan-out for convolutions, a deviation of 0.01 for what is fully connected.
TEST(FirstWeights, AreTorchvisions) {
  using Rule = FirstValues::Rule;
  const auto first_of = [](const Blueprint& net, const std::string& layer) {
    for (const StageSpec& stage : net.stages) {
      for (const Node& node : stage.nodes) {
        if (node.name != layer) continue;
        std::vector<FirstValues> all;
        for (const TensorInfo& tensor : tensors_of(node)) all.push_back(tensor.first);
        return all;
      }
    }
    return std::vector<FirstValues>();
  };
  const FirstValues zeros{Rule::zeros, 0}, small{Rule::normal, 0.01};
  const std::vector<FirstValues> of_linear{small, zeros};
  EXPECT_EQ(first_of(vgg(), "features.0"),
            (std::vector<FirstValues>{{Rule::normal, std::sqrt(2.0 / (64 * 9))}, zeros}));
  EXPECT_EQ(first_of(vgg(), "classifier.6"), of_linear);
  // Of all outputs, groups or not.
  EXPECT_EQ(first_of(mobilenet_v2(), "features.1.conv.0.0"),
            (std::vector<FirstValues>{{Rule::normal, std::sqrt(2.0 / (32 * 9))}}));
  EXPECT_EQ(first_of(mobilenet_v2(), "classifier.1"), of_linear);
  EXPECT_EQ(first_of(googlenet(), "conv2.conv"), std::vector<FirstValues>{small});
  EXPECT_EQ(first_of(googlenet(), "fc"),
            (std::vector<FirstValues>{small, {Rule::uniform, 1 / std::sqrt(1024.0)}}));
}

// Of GoogLeNet the classifiers' own layers, and no other.
TEST(Auxiliary, LayersAreThoseThatScoresDontNeed) {
  const Blueprint net = googlenet();
  const auto auxiliary = auxiliary_layers(net);
  ASSERT_EQ(auxiliary.size(), net.stages.size());
  for (std::size_t s = 0; s < net.stages.size(); ++s) {
    ASSERT_EQ(auxiliary[s].size(), net.stages[s].nodes.size());
    for (std::size_t i = 0; i < auxiliary[s].size(); ++i) {
      const std::string& name = net.stages[s].nodes[i].name;
      EXPECT_EQ(auxiliary[s][i], name.starts_with("aux")) << name;
    }
  }
  for (const auto& stage : auxiliary_layers(resnet()))
    EXPECT_EQ(std::count(stage.begin(), stage.end(), true), 0);
}

// Halves of a network: the second has the outputs, and so their weights.
TEST(Auxiliary, WeightsGoWithTheLastStage) {
  const Blueprint net = googlenet_bn();
  EXPECT_EQ(net.auxiliary, std::vector<double>{0.3});
  const std::size_t stages = net.stages.size();
  EXPECT_TRUE(some_stages(net, 0, stages - 1).auxiliary.empty());
  const Blueprint last = some_stages(net, stages - 1, 1);
  EXPECT_EQ(last.auxiliary, net.auxiliary);
  EXPECT_EQ(message_of<UsageError>([&] { check(last); }), "");
}

TEST(Auxiliary, WeightsHaveToBeOfOutputs) {
  Blueprint net = googlenet();
  net.auxiliary.push_back(0.3);
  EXPECT_EQ(message_of<UsageError>([&] { check(net); }),
            "stage 'head': puts out 3 tensors; with the weights of 3 auxiliary ones these have to "
            "be the scores and as many more");
  net.auxiliary = {0.3, 0};
  EXPECT_NE(message_of<UsageError>([&] { check(net); }).find("have weights of 0.0"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::model
