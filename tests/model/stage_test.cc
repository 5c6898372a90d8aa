// Stages and the networks they make up.
#include "convoy/model/stage.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/model/factory.h"
#include "convoy/model/linear.h"
#include "convoy/model/modules.h"
#include "tests/base/scratch.h"
#include "tests/model/branches.h"

namespace convoy::model {
namespace {

using test::message_of;

class EachNetwork : public testing::TestWithParam<std::string> {
 protected:
  Blueprint blueprint() const {
    ModelOptions options{.classes = 5};
    if (GetParam() == "speech-dnn" || GetParam() == "vgg11_bn") options.hidden = 12;
    if (GetParam() == "local-image") {
      options.image = {3, 21, 19};
      options.local_image = LocalImageOptions{
          .filter = 3, .norm = 3, .stages = {{4, 1, 2, 1}, {5, 2, 3, 1}, {3, 1, 2, 2}}};
    }
    return make_blueprint(GetParam(), options);
  }
  static torch::Tensor images(const Blueprint& network) {
    // Small ones, of an odd size where the network takes any.
    Shape shape = network.inputs[0];
    if (!made_for_one_shape(GetParam())) shape[1] = shape[2] = shape[0] == 1 ? 28 : 67;
    shape.insert(shape.begin(), 3);
    torch::manual_seed(1);
    return torch::randn(shape);
  }
};

// Stage by stage without the rest, and twice in one process: the weights and outputs of the whole.
TEST_P(EachNetwork, IsTheFoldOfStagesThatAreBuiltAlone) {
  const Blueprint network = blueprint();
  StagedNetwork whole(network, 3);
  const auto x = images(network);
  for (const bool training : {true, false}) {
    whole.train(training);
    std::vector<torch::Tensor> wanted, got;
    // Without a scope, dropout asks LibTorch's generator: the same questions in the same order.
    torch::manual_seed(2);
    const auto scores = whole.forward(x);
    for (int repetition = 0; repetition < 2; ++repetition) {
      torch::manual_seed(2);
      Tensors values{x};
      std::size_t parameters = 0;
      for (const StageSpec& spec : network.stages) {
        Stage stage(spec, 3);
        if (!training && repetition == 0) {
          // Statistics as the whole has them.
          const torch::NoGradGuard no_grad;
          for (auto& item : stage.named_buffers())
            item.value().copy_(whole.named_buffers()[item.key()]);
        }
        stage.train(training || repetition > 0);
        for (const auto& item : stage.named_parameters()) {
          EXPECT_TRUE(item.value().equal(whole.named_parameters()[item.key()])) << item.key();
          ++parameters;
        }
        values = stage.forward(std::move(values));
      }
      EXPECT_EQ(parameters, whole.parameters().size());
      ASSERT_EQ(values.size(), 1 + network.auxiliary.size());
      if (training || repetition == 0) {
        EXPECT_TRUE(values[0].equal(scores)) << training;
      }
    }
  }
}

TEST_P(EachNetwork, TellsTheTruthAboutItself) {
  const Blueprint network = blueprint();
  StagedNetwork whole(network, 3);
  whole.to(torch::kDouble);
  EXPECT_EQ(message_of<UsageError>(
                [&] { check_stages(whole, {images(network).slice(0, 0, 1).to(torch::kDouble)}); }),
            "");
  EXPECT_TRUE(whole.is_training());
  EXPECT_TRUE(whole.modules(false).back()->is_training());
}

INSTANTIATE_TEST_SUITE_P(Zoo, EachNetwork,
                         testing::Values("alexnet", "googlenet", "lenet", "local-image",
                                         "mobilenet_v2", "resnet18", "speech-dnn", "vgg11_bn"),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find('-'));
                         });

// As two ranks would have it, each of which builds its half alone.
TEST(StagedNetwork, IsTheFoldOfItsHalves) {
  const Blueprint whole = make_blueprint("resnet18", {.classes = 5});
  const auto x = torch::randn({2, 3, 64, 64});
  StagedNetwork first(some_stages(whole, 0, 4), 3), second(some_stages(whole, 4, 6), 3);
  EXPECT_EQ(second.blueprint()->inputs, (std::vector<Shape>{{128, 28, 28}}));
  EXPECT_TRUE(second.forward(first.forward(x)).equal(StagedNetwork(whole, 3).forward(x)));
  const std::vector<std::pair<std::size_t, std::size_t>> wrong{{0, 0}, {0, 11}, {10, 1}, {9, 2}};
  for (const auto& part : wrong)
    EXPECT_NE(message_of<UsageError>([&] { some_stages(whole, part.first, part.second); }), "");
}

TEST(Stage, LeavesItsInputsAlone) {
  const StageSpec spec{
      "s",
      {"x", "y"},
      {{"sum", layer::Add(), {"x", "y"}, {}}, {"relu", layer::Relu(), {"sum"}, {}}},
      {"relu", "y"}};
  Stage stage(spec, 1);
  const auto x = torch::randn({2, 3}), y = torch::randn({2, 3});
  const auto before = x.clone();
  const auto outputs = stage.forward({x, y});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(x.equal(before));
  EXPECT_TRUE(outputs[0].equal((x + y).relu()));
  EXPECT_TRUE(outputs[1].is_same(y));
  EXPECT_EQ(message_of<UsageError>([&] { stage.forward({x}); }),
            "stage 's' takes 2 tensors, not 1");
}

TEST(Stage, JoinsBranches) {
  const Blueprint network =
      branches({{"pool", layer::AveragePool{{3, 3}, {2, 2}, {1, 1}}, {"both"}, {}}});
  StagedNetwork net(network, 1);
  const auto x = torch::randn({2, 4, 9, 7});
  const auto a = torch::conv2d(x, net.named_parameters()["a.weight"],
                               net.named_parameters()["a.bias"], 1, 1, 1, 2);
  EXPECT_TRUE(net.forward(x).equal(torch::avg_pool2d(torch::cat({a, x.relu()}, 1), 3, 2, 1)));
  EXPECT_EQ(message_of<UsageError>([&] { check_stages(net, {x}); }), "");
  EXPECT_NE(message_of<UsageError>([&] { check_stages(net, {x, x}); }), "");
}

TEST(StagedNetwork, KnowsItsShape) {
  const auto net = make_model("resnet18", {.classes = 7});
  EXPECT_EQ(net->image_shape(), (std::array<std::int64_t, 3>{3, 224, 224}));
  EXPECT_EQ(net->classes(), 7);
  ASSERT_NE(net->blueprint(), nullptr);
  EXPECT_EQ(net->blueprint()->stages.size(), net->stages().size());
  // A network that takes something else has no shape of images, but computes.
  StagedNetwork flat(
      {"Flat", {{6}}, {{"s", {"x"}, {{"fc", layer::Linear{6, 2}, {"x"}, {}}}, {"fc"}}}}, 1);
  EXPECT_EQ(flat.forward(torch::zeros({3, 6})).sizes(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_NE(message_of<UsageError>([&] { flat.image_shape(); }), "");
}

// A module of one's own, which can be copied: each of its outputs is a mean over three rows.
struct RowsImpl : torch::nn::Cloneable<RowsImpl> {
  RowsImpl() { RowsImpl::reset(); }
  void reset() override { scale = register_parameter("scale", torch::full({1}, 1.5)); }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::avg_pool2d(x, {3, 1}, 1, {1, 0}) * scale;
  }
  torch::Tensor scale;
};
TORCH_MODULE(Rows);

struct Fixed : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x; }
};

struct Sevens : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.reshape({x.size(0), 7}); }
};

ModuleList small_list(const Statement& statement = {}) {
  ModuleList list("Small", {3, 12, 12});
  list.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)))
      .add("norm", torch::nn::BatchNorm2d(8))
      .add("relu", torch::nn::ReLU())
      .add("rows", Rows(), statement)
      .add("pool", torch::nn::MaxPool2d(2))
      .add("flatten", torch::nn::Flatten())
      .add("head", torch::nn::Sequential(torch::nn::Dropout(0.5), torch::nn::Linear(8 * 36, 4)));
  return list;
}

TEST(ModuleList, IsTheModulesOneAfterTheOther) {
  torch::manual_seed(1);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 8, 3).padding(1));
  torch::nn::Sequential head(torch::nn::Flatten(), torch::nn::Linear(8 * 12 * 12, 4));
  ModuleList list("Mine", {3, 12, 12});
  list.stage("features").add("conv", conv).add("relu", torch::nn::ReLU());
  list.stage("head").add("head", head);
  const auto net = list.network();
  ASSERT_EQ(net->stages().size(), 2u);
  const auto x = torch::randn({2, 3, 12, 12});
  EXPECT_TRUE(net->forward(x).equal(head->forward(conv->forward(x).relu())));
  EXPECT_EQ(net->named_parameters().keys(),
            (std::vector<std::string>{"conv.weight", "conv.bias", "head.1.weight", "head.1.bias"}));
  // The modules themselves, with their values, which initialize() leaves alone.
  EXPECT_TRUE(net->named_parameters()["conv.weight"].is_same(conv->weight));
  const auto before = conv->weight.detach().clone();
  initialize(*net, 9);
  EXPECT_TRUE(conv->weight.equal(before));
  const Blueprint data = list.blueprint();
  EXPECT_EQ(cost_of(data, data.inputs).parameters, parameter_count(*net));
  EXPECT_EQ(cost_of(data, data.inputs).macs, 12 * 12 * 8 * 27 + 1152 * 4);
  // A stage alone has copies.
  Stage alone(data.stages[0], 1);
  EXPECT_TRUE(alone.named_parameters()["conv.weight"].equal(conv->weight));
  EXPECT_FALSE(alone.named_parameters()["conv.weight"].is_same(conv->weight));
}

TEST(ModuleList, KnowsSigmoids) {
  ModuleList list("n", {4});
  torch::nn::Linear fc(4, 3);
  const auto net = list.add("fc", fc).add("s", torch::nn::Sigmoid()).network();
  EXPECT_STREQ(kind_name(net->blueprint()->stages[1].nodes[0]), "sigmoid");
  const auto x = torch::randn({2, 4});
  EXPECT_TRUE(net->forward(x).equal(fc(x).sigmoid()));
}

TEST(ModuleList, KnowsConvoysOwnModules) {
  ModuleList list("n", {4});
  list.add("fc", Linear(4, 3)).add("drop", Dropout(0.25)).add("same", Dropout(0.25, "drop"));
  const std::vector<StageSpec> stages = list.blueprint().stages;
  EXPECT_EQ(std::get<layer::Linear>(stages[0].nodes[0].kind).out, 3);
  EXPECT_EQ(std::get<layer::Dropout>(stages[1].nodes[0].kind).probability, 0.25);
  EXPECT_TRUE(std::holds_alternative<layer::Opaque>(stages[2].nodes[0].kind));
}

TEST(ModuleList, TakesModulesThatNobodyKnows) {
  const auto net = small_list().network();
  const auto x = torch::randn({2, 3, 12, 12});
  EXPECT_EQ(message_of<UsageError>([&] { check_stages(*net, {x}); }), "");
  std::vector<std::string> kinds;
  for (const StageSpec& stage : net->blueprint()->stages)
    kinds.push_back(kind_name(stage.nodes[0]));
  EXPECT_EQ(kinds, (std::vector<std::string>{"convolution", "batch_norm", "relu", "opaque",
                                             "max_pool", "flatten", "dropout", "linear"}));
  EXPECT_EQ(net->named_parameters().keys().at(4), "rows.scale");
  // What it says of itself is checked.
  const auto exact = [](const Shape& in, const Slice& out) {
    Slice part = out;
    part.begin[1] = std::max<std::int64_t>(0, out.begin[1] - 1);
    part.size[1] = std::min(in[1], out.begin[1] + out.size[1] + 1) - part.begin[1];
    return part;
  };
  const auto of_statement = [&](const Statement& statement) {
    return message_of<UsageError>([&] { check_stages(*small_list(statement).network(), {x}); });
  };
  EXPECT_EQ(of_statement({.required = exact}), "");
  EXPECT_EQ(of_statement({.required = [](const Shape&, const Slice& out) { return out; }}),
            "stage 'rows', layer 'rows': states that rows[0:1, 0:1, 0:1] of [8, 12, 12] needs no "
            "more than input[0:1, 0:1, 0:1] of [8, 12, 12], but other elements change it");
  EXPECT_NE(of_statement({.required =
                              [](const Shape&, const Slice&) {
                                return Slice{"", {1}, {0}, {1}};
                              }}),
            "");
}

// A known module's class, but another forward.
class ScaledConvImpl : public torch::nn::Conv2dImpl {
 public:
  explicit ScaledConvImpl(const torch::nn::Conv2dOptions& all) : torch::nn::Conv2dImpl(all) {}
  torch::Tensor forward(const torch::Tensor& x) { return 2 * torch::nn::Conv2dImpl::forward(x); }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& /*device*/) const override {
    const auto copy = std::make_shared<ScaledConvImpl>(torch::nn::Conv2dOptions(3, 4, 3));
    const torch::NoGradGuard no_grad;
    copy->weight.copy_(weight);
    copy->bias.copy_(bias);
    return copy;
  }
};
TORCH_MODULE(ScaledConv);
class LoudReluImpl : public torch::nn::ReLUImpl {
 public:
  torch::Tensor forward(const torch::Tensor& x) { return 3 * x.relu(); }
};
TORCH_MODULE(LoudRelu);

TEST(ModuleList, TakesDerivedModulesForOnesOfTheirOwn) {
  ScaledConv conv(torch::nn::Conv2dOptions(3, 4, 3));
  ModuleList list("Derived", {3, 6, 6});
  const auto net = list.add("conv", conv).add("relu", LoudRelu()).network();
  for (const StageSpec& stage : net->blueprint()->stages)
    EXPECT_STREQ(kind_name(stage.nodes[0]), "opaque");
  const auto x = torch::randn({2, 3, 6, 6});
  const auto expected = 3 * conv->forward(x).relu();
  EXPECT_TRUE(net->forward(x).equal(expected));
  // Copies are of the same class, or refused: those of its base class would compute something else.
  const Blueprint data = list.blueprint();
  EXPECT_TRUE(Stage(data.stages[0], 1).forward({x}).front().equal(conv->forward(x)));
  EXPECT_EQ(message_of<UsageError>([&] { Stage(data.stages[1], 1); }),
            "layer 'relu': its module can't be copied: a copy of it is of another class, which "
            "it is derived from. Let its class override clone(), or derive it from "
            "torch::nn::Cloneable");
}

class NormedConvImpl : public torch::nn::Cloneable<NormedConvImpl> {
 public:
  NormedConvImpl() { NormedConvImpl::reset(); }
  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(4, 4, 1));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(NormedConv);

// A frozen layer stays frozen, and one in evaluation mode in that, whatever copies it.
TEST(ModuleList, CopiesAreFrozenAsTheModulesAre) {
  ScaledConv conv(torch::nn::Conv2dOptions(3, 4, 3));
  torch::nn::BatchNorm2d norm(4);
  NormedConv block;
  conv->weight.set_requires_grad(false);
  norm->bias.set_requires_grad(false);
  norm->eval();
  block->conv->bias.set_requires_grad(false);
  block->norm->eval();
  ModuleList list("Frozen", {3, 6, 6});
  list.add("conv", conv).add("norm", norm).add("block", block);
  StagedNetwork copy(list.blueprint(), 1);
  std::vector<std::string> trained, modes;
  for (const auto& item : copy.named_parameters())
    if (item.value().requires_grad()) trained.push_back(item.key());
  for (const auto& item : copy.named_modules("", false))
    if (!item.value()->is_training()) modes.push_back(item.key());
  EXPECT_EQ(trained, (std::vector<std::string>{"conv.bias", "norm.weight", "block.conv.weight",
                                               "block.norm.weight", "block.norm.bias"}));
  EXPECT_EQ(modes, (std::vector<std::string>{"norm", "block.norm"}));
}

// One tensor in two layers is two in a copy.
TEST(ModuleList, WhatSharesTensorsIsNotCopied) {
  torch::nn::Linear fc(4, 4);
  ModuleList list("Shared", {4});
  list.add("first", fc).add("relu", torch::nn::ReLU()).add("second", fc);
  const auto net = list.network();
  net->forward(torch::ones({2, 4})).sum().backward();
  EXPECT_TRUE(net->named_parameters()["first.weight"].is_same(fc->weight));
  EXPECT_EQ(message_of<UsageError>([&] { StagedNetwork(list.blueprint(), 1); }),
            "layers 'first' and 'second' share 'first.weight', and copies and parts of them would "
            "have one each: give the model as ModuleList::network(), and train it whole, with "
            "strategy = \"sync\"");
}

// Means over all batches so far are no layer::BatchNorm, which has a momentum.
TEST(ModuleList, KnowsNormalizationsWithAMomentum) {
  ModuleList list("Norms", {3, 6, 6});
  list.add("usual", torch::nn::BatchNorm2d(3));
  list.add("means", torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(3).momentum(std::nullopt)));
  const Blueprint net = list.blueprint();
  EXPECT_STREQ(kind_name(net.stages[0].nodes[0]), "batch_norm");
  EXPECT_STREQ(kind_name(net.stages[1].nodes[0]), "opaque");
}

TEST(ModuleList, AWrongShapeIsFound) {
  ModuleList list("Liar", {3, 4, 4});
  list.add("rows", Rows(), {.output = [](const Shape& in) {
             return Shape{in[0], in[1], in[2] - 1};
           }});
  const auto net = list.network();
  EXPECT_EQ(message_of<UsageError>([&] {
              check_stages(*net, {torch::randn({1, 3, 4, 4})});
            }),
            "stage 'rows', layer 'rows': states that its output is [3, 4, 3], but it is [3, 4, 4]");
}

TEST(ModuleList, RefusesWhatItCantBuild) {
  ModuleList list("Small", {3, 12, 12});
  list.add("conv", torch::nn::Conv2d(4, 8, 3));
  EXPECT_EQ(message_of<UsageError>([&] { list.network(); }),
            "stage 'conv', layer 'conv': takes images of 4 channels, gets [3, 12, 12]");
  ModuleList inner("Small", {3, 12, 12});
  inner.add("block", torch::nn::Sequential(Rows()));
  inner.add("other", torch::nn::AnyModule(Sevens()));
  const std::string message = message_of<UsageError>([&] { inner.network(); });
  EXPECT_EQ(message.find("stage 'other', layer 'other': can't take [3, 12, 12]. LibTorch says: "),
            0u)
      << message;
  ModuleList fixed("Fixed", {3});
  fixed.add("f", torch::nn::AnyModule(Fixed()));
  EXPECT_EQ(message_of<UsageError>([&] { fixed.network(); }), "");
  EXPECT_NE(message_of<UsageError>([&] {
              Stage(fixed.blueprint().stages[0], 1);
            }).find("torch::nn::Cloneable"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::model
