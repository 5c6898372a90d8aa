// What follows from networks as data.
#include "convoy/model/blueprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/model/alexnet.h"
#include "convoy/model/googlenet.h"
#include "convoy/model/lenet.h"
#include "convoy/model/local_image.h"
#include "convoy/model/mobilenet.h"
#include "convoy/model/resnet.h"
#include "convoy/model/small_images.h"
#include "convoy/model/speech_dnn.h"
#include "convoy/model/vgg.h"
#include "tests/base/scratch.h"
#include "tests/model/branches.h"

namespace convoy::model {
namespace {

using test::message_of;

struct Published {
  Blueprint network;
  double gmacs;  // torchvision's model pages, to a millionth
  std::int64_t parameters;
};

// The GFLOPS and parameters that torchvision's documentation gives for its weights (a
// multiplication with its addition counts once there).
TEST(Cost, IsWhatIsPublished) {
  const std::vector<Published> all{
      {alexnet(), 0.714, 61100840},
      {alexnet({.widths = kOneTower}), 0.839, 61838248},
      {resnet({.depth = ResNetDepth::k18}), 1.814, 11689512},
      {resnet({.depth = ResNetDepth::k34}), 3.664, 21797672},
      {resnet({.depth = ResNetDepth::k50}), 4.089, 25557032},
      {resnet({.depth = ResNetDepth::k101}), 7.801, 44549160},
      {vgg({.layers = 11}), 7.609, 132863336},
      {vgg({.layers = 11, .batch_norm = true}), 7.609, 132868840},
      {vgg({.layers = 16}), 15.470, 138357544},
      {vgg({.layers = 16, .batch_norm = true}), 15.470, 138365992},
      {mobilenet_v2(), 0.301, 3504872},
      {googlenet({.auxiliary = false}), 1.498, 6624904},
  };
  for (const Published& p : all) {
    const Cost cost = cost_of(p.network, {{3, 224, 224}});
    EXPECT_NEAR(static_cast<double>(cost.macs) / 1e9, p.gmacs, 0.0006) << p.network.name;
    EXPECT_EQ(cost.parameters, p.parameters);
  }
}

// By hand: convolutions see 16, 7 and 3 rows and columns.
TEST(Cost, OfTheSmallOneTowerByHand) {
  const Cost cost = cost_of(small_one_tower(), {{3, 32, 32}});
  EXPECT_EQ(cost.macs, 256 * 75 * 32 + 49 * 288 * 64 + 9 * 576 * 96 + 9 * 864 * 96 + 9 * 864 * 64 +
                           576 * 512 + 512 * 512 + 512 * 10);
  EXPECT_EQ(cost.parameters, 777930);
  EXPECT_EQ(cost_of(small_one_tower({.classes = 4, .hidden = 8}), {{3, 32, 32}}).parameters,
            214720 + 577 * 8 + 9 * 8 + 9 * 4);
}

// By hand: 20·24·24·25 + 50·8·8·500 + 800·500 + 500·10; what is kept is the outputs of convolutions
// and pools, and of both fully connected layers (ReLU works in place, and flattening is a view).
TEST(Cost, OfLeNetByHand) {
  const Cost cost = cost_of(lenet(), {{1, 28, 28}});
  EXPECT_EQ(cost.macs, 288000 + 1600000 + 400000 + 5000);
  EXPECT_EQ(cost.parameters, 431080);
  EXPECT_EQ(cost.activation_bytes,
            4 * (20 * 24 * 24 + 20 * 12 * 12 + 50 * 8 * 8 + 50 * 4 * 4 + 500 + 10));
}

// He et al. 2015, section 4.2: as many layers and parameters in each network, without the biases of
// convolutions, and 0.27, 0.46, 0.66, 0.85 and 1.7 M of them.
TEST(Cost, OfSmallResNets) {
  const std::vector<std::pair<int, double>> published{
      {20, 0.27}, {32, 0.46}, {44, 0.66}, {56, 0.85}, {110, 1.7}};
  for (const auto& [layers, millions] : published) {
    const Blueprint network = small_resnet(layers);
    int with_weights = 0;
    std::int64_t biases = 0;
    for (const StageSpec& stage : network.stages) {
      for (const Node& node : stage.nodes) {
        const auto* convolution = std::get_if<layer::Convolution>(&node.kind);
        if (convolution != nullptr) biases += convolution->out;
        with_weights += convolution != nullptr || std::holds_alternative<layer::Linear>(node.kind);
      }
    }
    EXPECT_EQ(with_weights, layers);
    const std::int64_t parameters = cost_of(network, network.inputs).parameters - biases;
    EXPECT_NEAR(static_cast<double>(parameters) / 1e6, millions, 0.04) << layers;
    if (layers != 20) continue;
    EXPECT_EQ(biases, 688);
    EXPECT_EQ(parameters, 269722);
  }
}

// The first block of the second group: what its layers keep, without in-place ones. By hand:
// convolutions to 32 maps of 16 x 16 from 16 and from 32.
TEST(Cost, OfAShortcutWithoutParameters) {
  const Blueprint network = small_resnet(20);
  const auto shapes = shapes_of(network, network.inputs);
  const StageSpec& block = network.stages[4];
  ASSERT_EQ(block.name, "layer2.0");
  Cost sum;
  for (std::size_t i = 0; i < block.nodes.size(); ++i) {
    const Cost one = cost_of(block, i, shapes[4].layers[i]);
    if (block.nodes[i].name == "layer2.0.shortcut") {
      EXPECT_STREQ(kind_name(block.nodes[i]), "subsample");
      EXPECT_EQ(shapes[4].layers[i].inputs, (std::vector<Shape>{{16, 32, 32}}));
      EXPECT_EQ(shapes[4].layers[i].output, (Shape{32, 16, 16}));
      EXPECT_EQ(one.parameters, 0);
      EXPECT_EQ(one.macs, 0);
      EXPECT_EQ(one.activation_bytes, 4 * 32 * 16 * 16);
    }
    sum.macs += one.macs;
    sum.activation_bytes += one.activation_bytes;
  }
  EXPECT_EQ(sum.macs, 32 * 16 * 16 * 9 * (16 + 32));
  // Two convolutions, two normalizations and the shortcut.
  EXPECT_EQ(sum.activation_bytes, 4 * 5 * 32 * 16 * 16);
}

// By hand; the paper (Dean et al. 2012) says about 42 million.
TEST(Cost, OfTheSpeechNetwork) {
  const Blueprint network = speech_dnn();
  const Cost cost = cost_of(network, network.inputs);
  EXPECT_EQ(cost.macs, 440 * 2560 + 3 * 2560 * 2560 + 2560 * 8192);
  EXPECT_EQ(cost.parameters, cost.macs + 4 * 2560 + 8192);
  EXPECT_EQ(cost.parameters, 41777152);
  // Sigmoids write over what they read.
  EXPECT_EQ(cost.activation_bytes, 4 * (4 * 2560 + 8192));
  const Blueprint small = speech_dnn({.image = {1, 3, 5}, .classes = 7, .hidden = 4, .depth = 2});
  EXPECT_EQ(small.stages.size(), 3u);
  EXPECT_EQ(cost_of(small, {{1, 3, 5}}).parameters, 16 * 4 + 5 * 4 + 5 * 7);
  EXPECT_THROW((void)speech_dnn({.depth = 0}), UsageError);
  EXPECT_THROW((void)speech_dnn({.hidden = -1}), UsageError);
  EXPECT_EQ(message_of<UsageError>([] { speech_dnn({.classes = 0}); }),
            "speech-dnn can't tell 0 classes: there has to be one at least");
  EXPECT_NE(message_of<UsageError>([] { speech_dnn({.image = {11, 40}}); }), "");
}

// Hidden layers are followed by sigmoids, scores by nothing.
TEST(FirstWeights, OfTheSpeechNetwork) {
  const Blueprint network = speech_dnn({.image = {1, 3, 5}, .classes = 7, .hidden = 9, .depth = 1});
  const auto hidden = tensors_of(network.stages[0].nodes[1]);
  EXPECT_EQ(hidden[0].first, (FirstValues{FirstValues::Rule::uniform, 2}));  // 4 sqrt(6 / 24)
  EXPECT_EQ(hidden[1].first.rule, FirstValues::Rule::zeros);
  for (const TensorInfo& tensor : tensors_of(network.stages[1].nodes[0]))
    EXPECT_EQ(tensor.first, (FirstValues{FirstValues::Rule::uniform, 1.0 / 3})) << tensor.name;
}

// Of bfloat16, sums of squares and what is divided by them are float32.
TEST(Cost, OfLayersThatKeepFloat32) {
  const std::vector<std::pair<layer::Kind, std::size_t>> cases{
      {layer::L2Pool{}, 4}, {layer::LocalContrastNorm{}, 4}, {layer::MaxPool{}, 2}};
  for (const auto& [kind, least] : cases) {
    const StageSpec stage{"s", {"x"}, {{"a", kind, {"x"}, {}}}, {"a"}};
    const StageShapes shapes = shapes_of(stage, {{2, 4, 6}});
    for (const std::size_t element : {std::size_t{2}, std::size_t{8}}) {
      EXPECT_EQ(
          activation_bytes(stage, 0, shapes.layers[0], element),
          elements_of(shapes.outputs[0]) * static_cast<std::int64_t>(std::max(element, least)))
          << kind_name(stage.nodes[0]);
    }
  }
}

// Nothing is allocated: of the largest, 7 GB.
TEST(Cost, OfLocalNetworks) {
  const std::vector<std::pair<std::string, std::int64_t>> presets{
      {"80M", 81000896}, {"330M", 331178472}, {"1.7B", 1706721312}};
  for (const auto& [name, parameters] : presets) {
    const LocalImageOptions options = local_image_preset(name);
    EXPECT_EQ(options.filter, 10);
    const Blueprint network = local_image(options);
    EXPECT_EQ(cost_of(network, {{3, 100, 100}}).parameters, parameters) << name;
  }
  // By hand: 91 positions each way, of which a pool of 8 leaves 84; 75, 68; 59, 4.
  const Cost cost = cost_of(local_image(), {{3, 100, 100}});
  const std::int64_t weights = 91 * 91 * 8 * 300 + (75 * 75 + 59 * 59) * 8 * 800;
  EXPECT_EQ(cost.macs, weights + 16 * 8 * 21000);
  EXPECT_EQ(cost.parameters, cost.macs + (91 * 91 + 75 * 75 + 59 * 59) * 8 + 21000);
  EXPECT_EQ(cost.activation_bytes,
            4 * (8 * (91 * 91 + 75 * 75 + 59 * 59 + 2 * (84 * 84 + 68 * 68 + 16)) + 21000));
  EXPECT_EQ(message_of<UsageError>([] { local_image_preset("2B"); }),
            "local-image has no preset '2B'; there are 80M, 330M and 1.7B");
  EXPECT_EQ(message_of<UsageError>([] {
              local_image({.image = {3, 30, 30}});
            }),
            "stage 'local2', layer 'pool2': its kernel is larger than its input, [8, 5, 5]");
  EXPECT_THROW((void)local_image({.stages = {}}), UsageError);
  EXPECT_EQ(message_of<UsageError>([] {
              local_image({.image = {3, 100}});
            }),
            "local-image can't be made for images of [3, 100]: these have to be channels, height "
            "and width");
  EXPECT_THROW((void)local_image({.image = {3, 100, -100}}), UsageError);
  EXPECT_THROW((void)local_image({.classes = -1}), UsageError);
  EXPECT_THROW((void)local_image({.stages = {{8, 0, 2, 2}}}), UsageError);
  EXPECT_NE(message_of<UsageError>([] { check(local_image({.norm = 4})); }).find("odd numbers"),
            std::string::npos);
}

TEST(Shapes, FollowFromStageToStage) {
  const auto shapes = shapes_of(resnet(), {{3, 64, 48}});
  ASSERT_EQ(shapes.size(), 18u);  // the stem, 16 blocks, the head
  EXPECT_EQ(shapes.front().outputs, (std::vector<Shape>{{64, 16, 12}}));
  EXPECT_EQ(shapes[16].outputs, (std::vector<Shape>{{2048, 2, 2}}));
  EXPECT_EQ(shapes.back().outputs, (std::vector<Shape>{{1000}}));
}

TEST(Shapes, ThatDontFitNameStageAndLayer) {
  EXPECT_EQ(message_of<UsageError>([] {
              shapes_of(lenet(), {{1, 32, 32}});
            }),
            "stage 'fc1', layer 'fc1': takes 800 features, gets [1250]");
  EXPECT_EQ(message_of<UsageError>([] {
              shapes_of(lenet(), {{3, 28, 28}});
            }),
            "stage 'conv1', layer 'conv1': takes images of 1 channels, gets [3, 28, 28]");
  EXPECT_EQ(message_of<UsageError>([] {
              shapes_of(local_image(), {{3, 100, 99}});
            }),
            "stage 'local1', layer 'filter1': is made for images of 100 x 100, gets [3, 100, 99]");
  EXPECT_NO_THROW(shapes_of(alexnet(), {{3, 63, 63}}));
  EXPECT_EQ(message_of<UsageError>([] {
              shapes_of(alexnet(), {{3, 62, 63}});
            }),
            "stage 'conv5', layer 'features.12': its kernel is larger than its input, "
            "[256, 2, 3]");
  EXPECT_EQ(message_of<UsageError>([] {
              shapes_of(lenet(), {{1, 28, 28}, {3}});
            }),
            "stage 'conv1': takes 1 tensors, what comes before passes 2");
}

Blueprint normed_branches() { return branches({{"norm", layer::BatchNorm{10}, {"both"}, {}}}); }

TEST(Check, FindsWhatCantBeBuilt) {
  EXPECT_EQ(message_of<UsageError>([] { check(normed_branches()); }), "");
  const auto broken = [](const std::function<void(Blueprint&)>& change) {
    return message_of<UsageError>([&] {
      Blueprint network = normed_branches();
      change(network);
      check(network);
    });
  };
  EXPECT_EQ(broken([](Blueprint& n) { n.stages.clear(); }), "the network 'Branches' has no stage");
  EXPECT_EQ(broken([](Blueprint& n) { n.stages[1].name = "split"; }),
            "stage 'split': there are two of this name");
  EXPECT_EQ(broken([](Blueprint& n) { n.stages[0].nodes[1].inputs = {"c"}; }),
            "stage 'split': layer 'b' reads 'c', which is no input of the stage and no layer "
            "before");
  EXPECT_EQ(broken([](Blueprint& n) { n.stages[0].nodes[1].name = "a"; }),
            "stage 'split': layer 'a' has a name that is taken already");
  EXPECT_EQ(broken([](Blueprint& n) {
              n.stages[1].nodes[0].name = "b";
              n.stages[1].nodes[1].inputs = {"b"};
            }),
            "stage 'join': layer 'b' has the name of one in stage 'split'");
  EXPECT_EQ(broken([](Blueprint& n) {
              n.stages[1].nodes[1].name = "a.norm";
              n.stages[1].outputs = {"a.norm"};
            }),
            "stage 'join': layer 'a.norm' lies in another one, 'a'; name one of them otherwise");
  EXPECT_EQ(broken([](Blueprint& n) {
              n.stages[0].outputs = {"a", "z"};
            }),
            "stage 'split': has no layer 'z' to put out");
  EXPECT_EQ(broken([](Blueprint& n) { n.stages[0].outputs = {"a"}; }),
            "stage 'split': layer 'b' gives what nobody reads");
  EXPECT_EQ(broken([](Blueprint& n) {
              n.stages[0].outputs = {"a", "b", "image"};
            }),
            "stage 'join': takes 2 tensors, stage 'split' passes 3");
  EXPECT_EQ(broken([](Blueprint& n) { n.stages[0].nodes[1].kind = layer::Dropout{1.0}; }),
            "stage 'split', layer 'b': its probability has to be from 0 to less than 1");
  EXPECT_EQ(broken([](Blueprint& n) { n.stages[0].nodes[1].kind = layer::Subsample{}; }),
            "stage 'split', layer 'b': needs channels");
  EXPECT_EQ(broken([](Blueprint& n) {
              n.stages[0].nodes[1].kind = layer::Subsample{4, {0, 2}};
            }),
            "stage 'split', layer 'b': its stride has to be at least 1");
  EXPECT_EQ(broken([](Blueprint& n) {
              std::get<layer::Convolution>(n.stages[0].nodes[0].kind).groups = 4;
            }),
            "stage 'split', layer 'a': its groups have to divide its channels");
  const auto with = [&](const layer::Kind& kind) {
    return broken([&](Blueprint& n) { n.stages[0].nodes[1].kind = kind; });
  };
  EXPECT_EQ(with(layer::LocallyConnected{.in = 4, .out = 2}),
            "stage 'split', layer 'b': its image has to be at least 1 x 1");
  EXPECT_EQ(with(layer::LocallyConnected{.in = 4, .out = 2, .image = {4, 3}, .kernel = {4, 4}}),
            "stage 'split', layer 'b': its kernel is larger than its input, [4, 4, 3]");
  EXPECT_EQ(with(layer::L2Pool{.epsilon = 0}),
            "stage 'split', layer 'b': its epsilon has to be positive, also in float32");
  EXPECT_NE(with(layer::L2Pool{.epsilon = 1e-60}), "");
  EXPECT_EQ(with(layer::L2Pool{.kernel = {3, 3}, .padding = {2, 1}}),
            "stage 'split', layer 'b': its padding can be half of its kernel at most");
  EXPECT_EQ(with(layer::LocalContrastNorm{{3, 4}}),
            "stage 'split', layer 'b': its window has to be of odd numbers of rows and columns");
  EXPECT_EQ(with(layer::LocalContrastNorm{.least = 0}),
            "stage 'split', layer 'b': its least divisor has to be positive, also in float32");
  EXPECT_NE(with(layer::LocalContrastNorm{.least = 1e-60}), "");
  const std::int64_t many = 400'000'000'000'000;
  EXPECT_EQ(
      with(layer::LocallyConnected{.in = 4, .out = many, .image = {90, 90}, .kernel = {9, 9}}),
      "stage 'split', layer 'b': can't have so many weights: [82, 82, 400000000000000, 4, 9, "
      "9]");
  EXPECT_NE(with(layer::Linear{.in = many, .out = many}), "");
  for (const char* name : {"", ".a", "a.", "a..b"}) {
    EXPECT_NE(broken([&](Blueprint& n) { n.stages[1].nodes[1].name = name; }), "") << name;
  }
}

TEST(InPlace, OnlyWhereNobodyElseReads) {
  const StageSpec block = resnet().stages[1];  // layer1.0, with a projection
  std::map<std::string, bool> places;
  for (std::size_t i = 0; i < block.nodes.size(); ++i)
    places[block.nodes[i].name] = in_place(block, i);
  EXPECT_TRUE(places["layer1.0.relu1"]);
  EXPECT_TRUE(places["layer1.0.add"]);
  EXPECT_TRUE(places["layer1.0.relu"]);
  EXPECT_FALSE(places["layer1.0.conv1"]);
  // An input of the stage is another stage's, and what two read stays as it is.
  const StageSpec shared{"s",
                         {"x"},
                         {{"first", layer::Relu(), {"x"}, {}},
                          {"norm", layer::BatchNorm{1}, {"first"}, {}},
                          {"second", layer::Relu(), {"norm"}, {}},
                          {"sum", layer::Add(), {"norm", "second"}, {}}},
                         {"sum"}};
  for (std::size_t i = 0; i < shared.nodes.size(); ++i) EXPECT_FALSE(in_place(shared, i)) << i;
}

TEST(RequiredParameters, AreThoseOfTheUnits) {
  const Node linear{"fc", layer::Linear{5, 8}, {"x"}, {}};
  const std::vector<Shape> features{{5}};
  auto parts = required_parameters(linear, features, {"fc", {8}, {2}, {3}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], (Slice{"fc.weight", {8, 5}, {2, 0}, {3, 5}}));
  EXPECT_EQ(parts[1], (Slice{"fc.bias", {8}, {2}, {3}}));
  const Node norm{"bn", layer::BatchNorm{6}, {"x"}, {}};
  const std::vector<Shape> image{{6, 2, 2}};
  parts = required_parameters(norm, image, {"bn", {6, 2, 2}, {1, 0, 0}, {2, 1, 2}});
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[2], (Slice{"bn.running_mean", {6}, {1}, {2}}));
  EXPECT_TRUE(parts[4].whole());  // a count
  const Node local{"f",
                   layer::LocallyConnected{.in = 2, .out = 5, .image = {7, 6}, .kernel = {3, 2}},
                   {"x"},
                   {}};
  const std::vector<Shape> local_image{{2, 7, 6}};
  parts = required_parameters(local, local_image, {"f", {5, 5, 5}, {1, 2, 0}, {3, 2, 4}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0],
            (Slice{"f.weight", {5, 5, 5, 2, 3, 2}, {2, 0, 1, 0, 0, 0}, {2, 4, 3, 2, 3, 2}}));
  EXPECT_EQ(parts[1], (Slice{"f.bias", {5, 5, 5}, {2, 0, 1}, {2, 4, 3}}));
}

// A whole stage needs what its layers need together: two 3 x 3 convolutions reach two rows further.
TEST(RequiredInput, OfAStageIsThatOfItsLayers) {
  const auto conv = [] {
    return layer::Convolution{.in = 4, .out = 4, .kernel = {3, 3}, .padding = {1, 1}};
  };
  const StageSpec stage{
      "s",
      {"x", "unused"},
      {{"a", conv(), {"x"}, {}}, {"b", conv(), {"a"}, {}}, {"sum", layer::Add(), {"b", "x"}, {}}},
      {"sum", "unused"}};
  const StageShapes shapes = shapes_of(stage, {{4, 10, 10}, {3}});
  const auto parts = required_input(
      stage, shapes, {{"", {4, 10, 10}, {0, 4, 0}, {1, 2, 10}}, {"", {3}, {1}, {0}}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], (Slice{"x", {4, 10, 10}, {0, 2, 0}, {4, 6, 10}}));
  EXPECT_EQ(parts[1].elements(), 0);
}

}  // namespace
}  // namespace convoy::model
