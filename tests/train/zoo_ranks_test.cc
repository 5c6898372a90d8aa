// Every network of the zoo trains on two ranks what one process does with whole batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "convoy/model/factory.h"
#include "tests/train/equal_ranks.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

constexpr std::size_t kZooSteps = 20;
constexpr double kZooRate = 1e-3;

// All of it in float64, where a sum in another order differs by some 1e-16 of its largest term: the
// losses and weights of most networks end within 2.1e-14 of each other. What is wrong with a share
// of a batch, a statistic or a mask of dropout shows in the first three digits.
constexpr double kZooTolerance = 1e-12;

// Of networks in which a step at the usual rate makes a difference a thousand times as large: after
// ten nothing would be left to compare.
constexpr double kUnsteadyRate = 1e-6;

struct ZooCase {
  std::string model;
  data::Shape image;
  std::vector<std::string> options = {};
  double tolerance = kZooTolerance;
  std::size_t batch = 7;  // of which one rank has four, the other three
  double rate = kZooRate;

  friend void PrintTo(const ZooCase& c, std::ostream* out) { *out << c.model; }
};

// Small images, of which the last normalization still sees several values of a channel.
std::vector<ZooCase> zoo_cases() {
  constexpr data::Shape kGray{1, 28, 28}, kColor{3, 32, 32}, kLarger{3, 64, 64};
  // The fully connected layers of one VGG are whole: its 119 million weights are what is reduced.
  // Those of the others have as many inputs, and fewer units.
  const std::vector<std::string> narrow{"model.options.hidden=256"};
  // Blocks that begin as the identity.
  const std::vector<std::string> identity{"model.options.zero_init_residual=true"};
  // Its fully connected layer takes images of 224 x 224 alone.
  ZooCase googlenet_bn{"googlenet-bn", {3, 224, 224}};
  googlenet_bn.batch = 3;
  googlenet_bn.tolerance = 1e-8;  // a step makes a difference two to three times as large even so
  ZooCase googlenet{"googlenet", kLarger}, mobilenet{"mobilenet_v2", kLarger};
  for (ZooCase* unsteady : {&googlenet, &googlenet_bn, &mobilenet}) unsteady->rate = kUnsteadyRate;
  return {
      {"alexnet", {3, 63, 63}, narrow},
      {"alexnet-one-tower", {3, 63, 63}, narrow},
      {"alexnet32", kColor},
      googlenet,
      googlenet_bn,
      {"lenet", kGray},
      {"lenet43k", kGray},
      {"lenet170k", kGray},
      {"lenet672k", kGray},
      {"lenet487k", kColor},
      {"local-image",
       {1, 6, 6},
       {"model.options.maps=[4, 5]", "model.options.strides=[1, 1]", "model.options.pools=[2, 2]",
        "model.options.pool_strides=[1, 1]", "model.options.filter=2", "model.options.norm=3"}},
      {"mlp", kGray},
      mobilenet,
      {"resnet18", kLarger, identity},
      {"resnet20", kColor, identity},
      {"resnet34", kLarger, identity},
      {"resnet50", kLarger, identity},
      {"resnet101", kLarger, identity},
      {"speech-dnn", {1, 11, 40}},
      {"vgg11", kColor, narrow},
      {"vgg11_bn", kColor, narrow},
      {"vgg1125k", kColor},
      {"vgg16", kColor},
      {"vgg16_bn", kColor, narrow},
      {"vgg1863k", kColor},
      {"vit_b_16", kColor}};
}

class ZooRanks : public TrainerTest, public testing::WithParamInterface<ZooCase> {
 protected:
  Recipe recipe_of(const ZooCase& c) const {
    const std::string text = R"(
name = "zoo"
precision = "float64"
threads = 1
[model]
name = ")" + c.model + R"("
[data]
reader = "noise"
[optimizer]
momentum = 0.9
[schedule]
name = "constant"
[training]
epochs = 1
[sync]
batch_norm = "synchronized"
[output]
tensorboard = false
)";
    std::vector<std::string> overrides{"output.folder=\"" + folder_ + "/run\"",
                                       "training.batch=" + std::to_string(c.batch),
                                       "optimizer.lr=" + std::to_string(c.rate)};
    overrides.insert(overrides.end(), c.options.begin(), c.options.end());
    return parse_recipe({text, "zoo.toml", "/"}, overrides, registry_.vocabulary(),
                        Files::must_exist);
  }

  // New, of the recipe's seed.
  std::shared_ptr<model::Network> network_of(const Recipe& r, const ZooCase& c) const {
    const TaskFacts facts;
    const auto network =
        registry_.make_model(r.model.name, {3, c.image, r.model.options, facts, std::uint64_t{1}});
    network->to(torch::kDouble);
    return network;
  }
};

TEST_P(ZooRanks, TrainAsOneProcessDoes) {
  const ZooCase& c = GetParam();
  const auto noise = std::make_shared<testing_data::Noise>(c.image, kZooSteps * c.batch);
  registry_.add_reader("noise", [noise](const Options&) { return noise; }, {});
  const Recipe r = recipe_of(c);
  const RunResult result = train(r);
  ASSERT_EQ(result.steps, static_cast<std::int64_t>(kZooSteps));
  if (!first()) return;
  const auto plain = network_of(r, c);
  const torch::Tensor before = plain->parameters().back().detach().clone();
  const std::vector<double> wanted =
      testing_data::train_plainly(*plain, *noise, {c.batch, c.rate, 1});
  // The steps are small, and large enough to be seen.
  const torch::Tensor moved = (plain->parameters().back().detach() - before).abs();
  EXPECT_GT(moved.max().item<double>(), 1000 * c.tolerance * before.abs().max().item<double>());
  EXPECT_GT(moved.max().item<double>(), 1000 * c.tolerance * 1e-3);

  const auto steps = rows(r, "step");
  ASSERT_EQ(steps.size(), wanted.size());
  double of_losses = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(steps[i]["loss"].get<double>() - wanted[i]);
    EXPECT_LE(difference, c.tolerance * wanted[i]) << "step " << i + 1;
    of_losses = std::max(of_losses, difference / wanted[i]);
  }
  State trained = state_of(result.checkpoint);
  trained.optimizer.clear();  // a gigabyte of VGG-16's
  const double of_weights = testing_data::relative_difference_from(*plain, trained);
  EXPECT_LT(of_weights, c.tolerance);
  std::printf("%s: losses %.2g, weights %.2g\n", c.model.c_str(), of_losses, of_weights);
}

INSTANTIATE_TEST_SUITE_P(Networks, ZooRanks, testing::ValuesIn(zoo_cases()), [](const auto& info) {
  std::string name = info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ZooRanksCases, AreAllNetworks) {
  std::vector<std::string> names;
  for (const ZooCase& c : zoo_cases()) names.push_back(c.model);
  std::vector<std::string> known = model::model_names();
  std::sort(names.begin(), names.end());
  std::sort(known.begin(), known.end());
  EXPECT_EQ(names, known);
}

}  // namespace
}  // namespace convoy::train
