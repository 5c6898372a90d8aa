#include "convoy/model/factory.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/model/dropout.h"
#include "convoy/model/linear.h"
#include "convoy/model/small_images.h"
#include "tests/golden/read.h"

namespace {

using convoy::UsageError;
using convoy::model::make_model;
using nlohmann::json;

std::string error_of(const std::string& name, const convoy::model::ModelOptions& options = {}) {
  try {
    make_model(name, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Factory, MakesEveryNameItLists) {
  for (const auto& name : convoy::model::model_names()) {
    convoy::model::ModelOptions options{.classes = 7};
    if (name.starts_with("vgg1") && !name.ends_with("k")) options.hidden = 8;  // not 500 MB each
    const auto model = make_model(name, options);
    EXPECT_EQ(model->classes(), 7) << name;
    EXPECT_TRUE(model->is_training());
  }
}

TEST(Factory, NamesTheNearestModel) {
  EXPECT_NE(error_of("resnet5").find("did you mean 'resnet50'"), std::string::npos);
  EXPECT_NE(error_of("LeNet").find("did you mean 'lenet'"), std::string::npos);
  EXPECT_NE(error_of("").find("Known models: alexnet"), std::string::npos);
}

TEST(Factory, RefusesOptionsWithoutUse) {
  EXPECT_NE(error_of("lenet", {.zero_init_residual = true}), "");
  EXPECT_NE(error_of("alexnet", {.zero_init_residual = true}), "");
  EXPECT_NE(error_of("resnet18", {.dropout = 0.5}), "");
  EXPECT_NE(error_of("lenet", {.hidden = 8}), "");
  EXPECT_NE(error_of("mobilenet_v2", {.hidden = 8}), "");
  EXPECT_NE(error_of("googlenet-bn", {.dropout = 0.5}), "");
  EXPECT_NE(error_of("vgg16_bn", {.dropout = 1.0}).find("'vgg16_bn': dropout is"),
            std::string::npos);
  EXPECT_NE(error_of("resnet18", {.auxiliary = false}).find("those are googlenet*'s"),
            std::string::npos);
  EXPECT_NE(error_of("alexnet", {.hidden = -8}), "");
  EXPECT_NE(error_of("alexnet", {.widths = {1, 2, 3, 4, 5}}).find("for alexnet-one-tower"),
            std::string::npos);
  EXPECT_NE(error_of("alexnet-one-tower", {.widths = {1, 2, 3, 4}}).find("five positive numbers"),
            std::string::npos);
  EXPECT_NE(error_of("alexnet-one-tower", {.widths = {1, 2, 0, 4, 5}}).find("five positive"),
            std::string::npos);
  EXPECT_EQ(error_of("alexnet-one-tower", {.hidden = 8, .widths = {1, 2, 3, 4, 5}}), "");
  EXPECT_NE(error_of("lenet", {.classes = -1}), "");
  EXPECT_NE(error_of("alexnet", {.depth = 2}).find("for speech-dnn"), std::string::npos);
  EXPECT_NE(error_of("speech-dnn", {.depth = -2}).find("have to be positive"), std::string::npos);
  EXPECT_NE(error_of("speech-dnn", {.dropout = 0.5}), "");
  EXPECT_NE(error_of("local-image", {.hidden = 8}), "");
  EXPECT_NE(error_of("alexnet", {.local_image = convoy::model::LocalImageOptions()}), "");
  EXPECT_NE(error_of("resnet18", {.image = {3, 64, 64}}).find("not made for images of one shape"),
            std::string::npos);
  EXPECT_NE(error_of("speech-dnn", {.image = {1, 11}}).find("channels, height and width"),
            std::string::npos);
  EXPECT_NE(error_of("local-image", {.image = {3, 0, 100}}).find("channels, height and width"),
            std::string::npos);
  EXPECT_NE(error_of("lenet", {.layers = std::vector<std::int64_t>{5}}).find("that is for mlp"),
            std::string::npos);
  EXPECT_NE(error_of("mlp", {.hidden = 8}), "");
  EXPECT_NE(error_of("mlp", {.layers = std::vector<std::int64_t>{5, 0}}).find("fc2 has 0 units"),
            std::string::npos);
  EXPECT_NE(error_of("mlp", {.image = {1, 0, 9}}).find("no elements"), std::string::npos);
  for (const double dropout : {-0.1, 1.0, std::nan("")}) {
    EXPECT_NE(error_of("alexnet", {.dropout = dropout}).find("dropout is"), std::string::npos);
  }
}

// Values, gradients and clones.
TEST(Linear, IsLibTorchs) {
  for (const bool bias : {true, false}) {
    const auto options = torch::nn::LinearOptions(7, 5).bias(bias);
    torch::manual_seed(9);
    convoy::model::Linear ours(options);
    torch::manual_seed(9);
    torch::nn::Linear theirs(options);
    const auto copy = std::dynamic_pointer_cast<convoy::model::LinearImpl>(ours->clone());
    ASSERT_TRUE(copy);
    ASSERT_EQ(ours->named_parameters().keys(), theirs->named_parameters().keys());
    for (const auto& shape : {std::vector<std::int64_t>{7}, {3, 7}, {2, 3, 7}}) {
      const auto x = torch::randn(shape);
      const auto want = theirs(x);
      EXPECT_TRUE(torch::allclose(ours(x), want, 1e-6, 1e-7));
      EXPECT_TRUE(torch::allclose(copy->forward(x), want, 1e-6, 1e-7));
      ours->zero_grad();
      theirs->zero_grad();
      ours(x).square().sum().backward();
      want.square().sum().backward();
      for (std::size_t i = 0; i < ours->parameters().size(); ++i) {
        EXPECT_TRUE(ours->parameters()[i].equal(theirs->parameters()[i]));
        EXPECT_TRUE(torch::allclose(ours->parameters()[i].grad(), theirs->parameters()[i].grad(),
                                    1e-5, 1e-6));
      }
    }
    EXPECT_FALSE(copy->weight.is_same(ours->weight));
  }
}

TEST(LeNet, HasCaffesParameters) {
  const auto model = make_model("lenet");
  EXPECT_EQ(convoy::model::parameter_count(*model), 431080);
  EXPECT_EQ(model->forward(torch::zeros({2, 1, 28, 28})).sizes(),
            (std::vector<std::int64_t>{2, 10}));
}

TEST(Mlp, TakesSamplesOfAnyShape) {
  torch::manual_seed(2);
  const auto model = make_model(
      "mlp", {.classes = 7, .layers = std::vector<std::int64_t>{8, 6}, .image = {1, 11, 40}});
  EXPECT_EQ(convoy::model::parameter_count(*model), 440 * 8 + 8 + 8 * 6 + 6 + 6 * 7 + 7);
  const auto x = torch::randn({2, 1, 11, 40});
  auto want = x.flatten(1);
  const auto parameters = model->named_parameters();
  for (const std::string layer : {"fc1", "fc2", "fc3"}) {
    want = torch::linear(layer == "fc1" ? want : want.relu(), parameters[layer + ".weight"],
                         parameters[layer + ".bias"]);
  }
  EXPECT_TRUE(torch::allclose(model->forward(x), want, 1e-5, 1e-6));
  const auto linear = make_model("mlp", {.layers = std::vector<std::int64_t>()});
  EXPECT_EQ(convoy::model::parameter_count(*linear), 784 * 10 + 10);
}

// The counts are the paper's.
TEST(SmallImages, HaveAsManyParametersAsPublished) {
  struct Published {
    const char* name;
    std::int64_t parameters;
    std::vector<std::int64_t> image;
  };
  const Published all[] = {
      {"lenet43k", 43158, {2, 1, 28, 28}},   {"lenet170k", 169506, {2, 1, 28, 28}},
      {"lenet672k", 671802, {2, 1, 28, 28}}, {"lenet487k", 487458, {2, 3, 32, 32}},
      {"vgg1125k", 1125090, {2, 3, 32, 32}}, {"vgg1863k", 1862754, {2, 3, 32, 32}},
      {"resnet20", 270410, {2, 3, 32, 32}}};
  for (const Published& one : all) {
    SCOPED_TRACE(one.name);
    const auto model = make_model(one.name);
    EXPECT_EQ(convoy::model::parameter_count(*model), one.parameters);
    EXPECT_EQ(model->forward(torch::rand(one.image)).sizes(), (std::vector<std::int64_t>{2, 10}));
    EXPECT_NE(error_of(one.name, {.dropout = 0.5}), "");
  }
  EXPECT_THROW((void)convoy::model::small_vgg(10), UsageError);
  EXPECT_THROW((void)convoy::model::lenet_of_width(0), UsageError);
  for (const int layers : {-4, 2, 18, 21}) {
    EXPECT_THROW((void)convoy::model::small_resnet(layers), UsageError) << layers;
  }
}

TEST(LeNet, StartsFromXavier) {
  torch::manual_seed(3);
  const auto model = make_model("lenet");
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["fc1.bias"].abs().sum().item<double>(), 0);
  const double bound = std::sqrt(3.0 / 800);
  const auto largest = parameters["fc1.weight"].abs().max().item<double>();
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
}

class TorchvisionNames : public testing::TestWithParam<std::string> {};

// Names, shapes and order, all as torchvision has them.
TEST_P(TorchvisionNames, AndShapes) {
  const json golden = convoy::golden::read("torchvision_shapes.json")["models"][GetParam()];
  const auto model = make_model(GetParam());
  EXPECT_EQ(convoy::model::parameter_count(*model), golden["parameters"].get<std::int64_t>());

  std::vector<std::string> order;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& item : model->named_parameters()) {
    order.push_back(item.key());
    shapes[item.key()] = item.value().sizes().vec();
  }
  for (const auto& item : model->named_buffers()) shapes[item.key()] = item.value().sizes().vec();
  EXPECT_EQ(order, golden["order"].get<std::vector<std::string>>());
  EXPECT_EQ(shapes, (golden["shapes"].get<std::map<std::string, std::vector<std::int64_t>>>()));
}

INSTANTIATE_TEST_SUITE_P(Models, TorchvisionNames,
                         testing::Values("alexnet", "mobilenet_v2", "resnet18", "resnet34",
                                         "resnet50", "resnet101"));

// The data say the same, without building anything: of networks too large to be built here, too.
class TorchvisionData : public testing::TestWithParam<std::string> {};

TEST_P(TorchvisionData, HasItsNamesAndShapes) {
  const json golden = convoy::golden::read("torchvision_shapes.json")["models"][GetParam()];
  const auto network = convoy::model::make_blueprint(GetParam());
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::int64_t parameters = 0;
  for (const auto& stage : network.stages) {
    for (const auto& node : stage.nodes) {
      for (const auto& tensor : tensors_of(node)) {
        shapes[tensor.name] = tensor.shape;
        if (!tensor.buffer) parameters += convoy::model::elements_of(tensor.shape);
      }
    }
  }
  EXPECT_EQ(parameters, golden["parameters"].get<std::int64_t>());
  EXPECT_EQ(shapes, (golden["shapes"].get<std::map<std::string, std::vector<std::int64_t>>>()));
}

INSTANTIATE_TEST_SUITE_P(Models, TorchvisionData,
                         testing::Values("vgg11", "vgg11_bn", "vgg16", "vgg16_bn", "mobilenet_v2",
                                         "googlenet", "vit_b_16"));

TEST(AlexNet, DropsInTrainingAlone) {
  torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  const auto model = make_model("alexnet", {.classes = 3});
  const auto images = torch::randn({1, 3, 63, 63});  // the smallest
  EXPECT_FALSE(model->forward(images).equal(model->forward(images)));
  model->eval();
  const auto scores = model->forward(images);
  EXPECT_TRUE(scores.equal(model->forward(images)));
  std::vector<double> dropped;
  for (const auto& module : model->modules()) {
    if (const auto* dropout = module->as<convoy::model::Dropout>())
      dropped.push_back(dropout->probability());
  }
  EXPECT_EQ(dropped, (std::vector<double>{0.5, 0.5}));
  const auto plain = make_model("alexnet", {.classes = 3, .dropout = 0.0});
  EXPECT_TRUE(plain->forward(images).equal(plain->forward(images)));
}

TEST(ResNet, NormalizationStartsAsTheIdentityOrAtZero) {
  const auto plain = make_model("resnet18")->named_parameters();
  EXPECT_EQ(plain["layer1.0.bn2.weight"].sum().item<double>(), 64);
  EXPECT_EQ(plain["layer1.0.bn2.bias"].abs().sum().item<double>(), 0);
  const auto basic = make_model("resnet18", {.zero_init_residual = true})->named_parameters();
  EXPECT_EQ(basic["layer4.1.bn2.weight"].abs().sum().item<double>(), 0);
  EXPECT_EQ(basic["layer4.1.bn1.weight"].sum().item<double>(), 512);
  const auto bottleneck = make_model("resnet50", {.zero_init_residual = true})->named_parameters();
  EXPECT_EQ(bottleneck["layer4.2.bn3.weight"].abs().sum().item<double>(), 0);
  EXPECT_EQ(bottleneck["layer4.0.downsample.1.weight"].sum().item<double>(), 2048);
  const auto small = make_model("resnet20", {.zero_init_residual = true})->named_parameters();
  EXPECT_EQ(small["layer3.2.bn2.weight"].abs().sum().item<double>(), 0);
  EXPECT_EQ(small["layer3.2.bn1.weight"].sum().item<double>(), 64);
}

// A seed is all that first weights depend on; without one, LibTorch's generator gives it.
TEST(Factory, SeedsDecideFirstWeights) {
  const auto weights = [](std::optional<std::uint64_t> seed) {
    return make_model("lenet", {}, seed)->named_parameters()["conv1.weight"];
  };
  const auto one = weights(1);
  torch::manual_seed(7);
  const auto drawn = weights(std::nullopt);
  EXPECT_TRUE(weights(1).equal(one));
  EXPECT_FALSE(weights(2).equal(one));
  EXPECT_FALSE(weights(std::nullopt).equal(drawn));
  torch::manual_seed(7);
  EXPECT_TRUE(weights(std::nullopt).equal(drawn));
}

}  // namespace
