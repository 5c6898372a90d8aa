// N ranks train what one process does, dropout and first weights included.
#include <gtest/gtest.h>

#include <algorithm>

#include "convoy/model/dropout.h"
#include "convoy/model/factory.h"
#include "convoy/model/randomness.h"
#include "tests/train/equal_ranks.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

constexpr std::size_t kSamples = 18, kBatch = 7;  // batches of 7, 7 and 4: shares of unequal sizes
constexpr const char* kSynchronized = "sync.batch_norm=synchronized";

struct Case {
  const char* name;
  const char* model;
  data::Shape image;
  std::vector<std::string> overrides;
  model::ModelOptions options;
  double float32_tolerance;  // 0: in float64 alone
  double rate = 0.02;
  int epochs = 2;  // of three steps

  bool normalized() const {
    return std::find(overrides.begin(), overrides.end(), kSynchronized) != overrides.end();
  }
};

// One whose forward is code, with two layers of dropout.
class Code final : public model::Network {
 public:
  Code() : Network("Code") {
    hidden_ = register_module("hidden", torch::nn::Linear(36, 50));
    inner_ = register_module("inner", model::Dropout(0.5));
    outer_ = register_module("outer", model::Dropout(0.3));
    fc_ = register_module("fc", torch::nn::Linear(50, 3));
  }
  torch::Tensor forward(torch::Tensor images) override {
    return fc_(inner_(torch::relu(hidden_(outer_(images.flatten(1))))));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 3; }

 private:
  torch::nn::Linear hidden_{nullptr}, fc_{nullptr};
  model::Dropout inner_{nullptr}, outer_{nullptr};
};

std::shared_ptr<model::Network> make_network(const Case& c) {
  if (std::string(c.model) != "code") return model::make_model(c.model, c.options, 1);
  torch::manual_seed(1);
  const auto net = std::make_shared<Code>();
  model::name_layers(*net);
  return net;
}

class EqualRanks : public TrainerTest, public testing::WithParamInterface<Case> {
 protected:
  // The largest difference of a trained parameter or buffer from the plain loop's, as a part of
  // the tensor's largest value; on rank 0.
  double difference(const std::string& precision, const std::vector<std::string>& more = {}) {
    const Case& c = GetParam();
    const auto data = std::make_shared<testing_data::Noise>(c.image, kSamples);
    registry_.add_reader("noise", [data](const Options&) { return data; }, {});
    registry_.add_model("code", [](const ModelRequest&) { return std::make_shared<Code>(); });
    const std::string text = std::string(R"(
name = "equal"
[model]
name = ")") + c.model + R"("
[data]
reader = "noise"
[optimizer]
lr = 0.02
momentum = 0.9
[schedule]
name = "constant"
[training]
batch = 7
epochs = 2
[output]
tensorboard = false
)";
    std::vector<std::string> overrides{
        "output.folder=\"" + folder_ + "/run\"", "precision=" + precision,
        "optimizer.lr=" + std::to_string(c.rate), "training.epochs=" + std::to_string(c.epochs)};
    overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
    overrides.insert(overrides.end(), more.begin(), more.end());
    const RunResult result = train(parse_recipe({text, "test.toml", "/"}, overrides,
                                                registry_.vocabulary(), Files::must_exist));
    EXPECT_EQ(result.steps, 3 * c.epochs);
    if (!first()) return 0;
    const auto net = make_network(c);
    net->to(precision == "float64" ? torch::kDouble : torch::kFloat);
    const auto losses = testing_data::train_plainly(*net, *data, {kBatch, c.rate, c.epochs});
    EXPECT_EQ(losses.size(), static_cast<std::size_t>(3 * c.epochs));
    const double most = testing_data::relative_difference_from(*net, state_of(result.checkpoint));
    std::printf("%s %s: %.2g\n", c.name, precision.c_str(), most);
    return most;
  }
};

// In float64 rounding alone stays under 1e-12.
TEST_P(EqualRanks, InDouble) { EXPECT_LT(difference("float64"), 1e-9); }

// Micro-batches and the layout of images change nothing either.
TEST_P(EqualRanks, InDoubleWithAccumulationAndChannelsLast) {
  if (GetParam().normalized()) return;  // whose statistics are a micro-batch's
  EXPECT_LT(difference("float64", {"training.accumulate=2", "model.channels_last=true"}), 1e-9);
}

// Sums of gradients in another order differ by some 1e-7 of their largest terms, and six steps with
// momentum carry that on: to some 5e-7 of a tensor's largest value, and 1e-5 leaves room for other
// kernels. Normalizations over few values amplify it: hence ResNet-18 takes fewer and smaller steps
// from blocks that begin as the identity, and is given 1e-3.
TEST_P(EqualRanks, InFloat) {
  if (GetParam().float32_tolerance == 0) return;
  EXPECT_LT(difference("float32"), GetParam().float32_tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, EqualRanks,
    testing::Values(
        Case{"alexnet",
             "alexnet",
             {3, 63, 63},
             {"model.options.hidden=64"},
             {.classes = 3, .hidden = 64},
             1e-5},
        Case{"lenet", "lenet", {1, 28, 28}, {}, {.classes = 3}, 1e-5},
        Case{"code", "code", {1, 6, 6}, {}, {}, 1e-5},
        // Of this size, every rank has several values of a channel.
        Case{"resnet18",
             "resnet18",
             {3, 64, 64},
             {kSynchronized, "model.options.zero_init_residual=true"},
             {.classes = 3, .zero_init_residual = true},
             1e-3,
             0.005,
             1},
        // With grouped convolutions, and with auxiliary classifiers and dropout in
        // them; zoo_ranks_test.cc has all networks.
        Case{"mobilenet_v2",
             "mobilenet_v2",
             {3, 64, 64},
             {kSynchronized},
             {.classes = 3},
             0,
             0.005,
             1},
        Case{"googlenet", "googlenet", {3, 64, 64}, {kSynchronized}, {.classes = 3}, 0, 0.005, 1}),
    [](const auto& info) { return std::string(info.param.name); });

// A plugin's network that is data: described without being built, and built from the seed.
TEST_F(TrainerTest, RegistryTakesBlueprints) {
  registry_.add_model("data", [](const ModelRequest& request) {
    const std::int64_t pixels = request.image.channels * request.image.height * request.image.width;
    return model::Blueprint{
        "Data",
        {{request.image.channels, request.image.height, request.image.width}},
        {{"all",
          {"images"},
          {{"flatten", model::layer::Flatten(), {"images"}, {}},
           {"fc", model::layer::Linear{pixels, request.classes}, {"flatten"}, {}}},
          {"fc"}}}};
  });
  const Options none;
  const TaskFacts facts;
  const ModelRequest request{4, {1, 6, 6}, none, facts, 7};
  const auto data = registry_.blueprint("data", request);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->stages.size(), 1u);
  EXPECT_FALSE(registry_.blueprint("small", request));
  const auto net = registry_.make_model("data", request);
  EXPECT_EQ(net->classes(), 4);
  const auto same = registry_.make_model("data", request);
  EXPECT_TRUE(net->parameters()[0].equal(same->parameters()[0]));
  EXPECT_THROW(registry_.add_model("data", [](const ModelRequest&) { return model::Blueprint(); }),
               UsageError);
}

}  // namespace
}  // namespace convoy::train
