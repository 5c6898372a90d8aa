// Networks that leave classifiers out or are one module, and layers of MobileNetV2 and GoogLeNet.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/model/modules.h"
#include "convoy/model/stage.h"
#include "convoy/model/vit.h"
#include "tests/base/scratch.h"

namespace convoy::model {
namespace {

using test::message_of;

// What only they need can't be computed any more, which training finds out.
TEST(StagedNetwork, LeavesAuxiliaryClassifiersOutInEvaluation) {
  const Blueprint data = make_blueprint("googlenet", {.classes = 4, .dropout = 0.0});
  StagedNetwork network(data, 3);
  const auto x = torch::randn({2, 3, 32, 32});
  const Tensors outputs = network.run({x});
  ASSERT_EQ(outputs.size(), 3u);
  for (const torch::Tensor& scores : outputs)
    EXPECT_EQ(scores.sizes().vec(), (std::vector<std::int64_t>{2, 4}));
  network.eval();
  const auto scores = network.forward(x);
  for (const char* name : {"aux1.conv.conv.weight", "aux2.fc1.weight"})
    network.named_parameters()[name].set_data(torch::zeros({1, 1, 1, 1}));
  const Tensors alone = network.run({x});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(alone[0].equal(scores));
  network.train();
  EXPECT_THROW(network.run({x}), c10::Error);
}

// A network of one layer without a name: its tensors have the names of the module's, and begin as
// the data say, in a stage alone as in the whole.
TEST(StagedNetwork, OfOneModuleHasTheModulesNames) {
  const Blueprint data = vision_transformer({.image = {3, 8, 12},
                                             .classes = 5,
                                             .patch = 4,
                                             .layers = 1,
                                             .heads = 2,
                                             .width = 6,
                                             .hidden = 7});
  StagedNetwork network(data, 3);
  Stage alone(data.stages[0], 3);
  const auto infos = tensors_of(data.stages[0].nodes[0]);
  const auto parameters = network.named_parameters();
  ASSERT_EQ(parameters.size(), infos.size());
  for (const TensorInfo& info : infos) {
    ASSERT_TRUE(parameters.contains(info.name)) << info.name;
    const torch::Tensor& tensor = parameters[info.name];
    EXPECT_EQ(tensor.sizes().vec(), info.shape) << info.name;
    EXPECT_TRUE(tensor.equal(alone.named_parameters()[info.name])) << info.name;
    EXPECT_EQ(tensor.abs().max().item<double>() == 0, info.first.rule == FirstValues::Rule::zeros)
        << info.name;
  }
  EXPECT_EQ(cost_of(data, data.inputs).parameters, parameter_count(network));
  // Of another type all of it is.
  network.to(torch::kDouble);
  const auto x = torch::randn({2, 3, 8, 12}, torch::kDouble);
  network.forward(x).sum().backward();
  EXPECT_EQ(network.named_parameters()["class_token"].grad().scalar_type(), torch::kDouble);
  EXPECT_EQ(message_of<UsageError>([&] { check_stages(network, {x}); }), "");
  EXPECT_NE(message_of<UsageError>([&] { shapes_of(data, {{3, 8, 8}}); }), "");
  // With another stage it needs a name.
  Blueprint two = data;
  two.stages.push_back({"more", {"x"}, {{"relu", layer::Relu(), {"x"}, {}}}, {"relu"}});
  EXPECT_EQ(message_of<UsageError>([&] { check(two); }),
            "stage 'vit': its layer needs a name, since there are other stages");
}

TEST(VisionTransformer, NeedsNumbersThatFit) {
  EXPECT_EQ(message_of<UsageError>([] {
              vision_transformer({.image = {3, 224, 220}});
            }),
            "the vision transformer can't be made for images of [3, 224, 220]: it takes channels, "
            "height and width, these two multiples of 16");
  EXPECT_EQ(message_of<UsageError>([] { vision_transformer({.heads = 5}); }),
            "the vision transformer can't divide tokens of 768 numbers among 5 heads");
  EXPECT_NE(message_of<UsageError>([] { vision_transformer({.layers = 0}); }), "");
  // torchvision's pages.
  const Blueprint net = vision_transformer();
  EXPECT_NEAR(static_cast<double>(cost_of(net, net.inputs).macs) / 1e9, 17.564, 0.0006);
}

TEST(ModuleList, KnowsRelu6AndPoolsOfAllThatIsThere) {
  ModuleList list("n", {1, 7, 8});
  const auto net =
      list.add("relu", torch::nn::ReLU6())
          .add("pool",
               torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).ceil_mode(true)))
          .network();
  EXPECT_STREQ(kind_name(net->blueprint()->stages[0].nodes[0]), "relu6");
  EXPECT_STREQ(kind_name(net->blueprint()->stages[1].nodes[0]), "max_pool");
  const auto x = 10 * torch::randn({2, 1, 7, 8});
  EXPECT_TRUE(net->forward(x).equal(torch::max_pool2d(x.clamp(0, 6), 3, 2, 0, 1, true)));
}

// Over what a convolution has computed: the gradient is the same.
TEST(Stage, Relu6WritesOverItsInput) {
  const StageSpec spec{"s",
                       {"x"},
                       {{"conv", layer::Convolution{.in = 1, .out = 3}, {"x"}, {}},
                        {"relu", layer::Relu6(), {"conv"}, {}}},
                       {"relu"}};
  EXPECT_TRUE(in_place(spec, 1));
  Stage stage(spec, 1);
  const auto x = 20 * torch::randn({2, 1, 6, 6});
  const auto parameters = stage.named_parameters();
  const auto wanted =
      torch::conv2d(x, parameters["conv.weight"], parameters["conv.bias"]).clamp(0, 6);
  const auto gradient = torch::randn_like(wanted);
  wanted.backward(gradient);
  const auto expected = parameters["conv.weight"].grad().clone();
  stage.zero_grad();
  const auto output = stage.forward({x}).front();
  EXPECT_TRUE(output.equal(wanted));
  EXPECT_GT(output.eq(6).sum().item<std::int64_t>(), 0);
  output.backward(gradient);
  EXPECT_TRUE(torch::allclose(parameters["conv.weight"].grad(), expected));
}

}  // namespace
}  // namespace convoy::model
