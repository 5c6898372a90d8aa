// Gradients of divided weights that are computed after backward, against those of autograd.
#include "train/strategies/hybrid/late_gradients.h"

#include <gtest/gtest.h>

#include "convoy/model/blueprint.h"

namespace convoy::train {
namespace {

constexpr std::int64_t kIn = 1000, kOut = 2300;  // more than is computed at a time

// A fully connected layer, and one that is smaller behind it.
std::vector<PartitionedLayer> make_layers() {
  using namespace model::layer;
  const auto layer = [](const std::string& name, std::int64_t in, std::int64_t out) {
    model::StageSpec spec{name,
                          {"x"},
                          {model::Node{name + ".fc", Linear{.in = in, .out = out}, {"x"}, nullptr},
                           model::Node{name + ".relu", Relu{}, {name + ".fc"}, nullptr}},
                          {name + ".relu"}};
    return PartitionedLayer{name, in, {out}, std::make_shared<model::Stage>(spec, 3)};
  };
  return {layer("a", kIn, kOut), layer("b", kOut, 5)};
}

torch::Tensor rows(std::uint64_t seed, std::int64_t count = 4) {
  return torch::randn({count, kIn}, at::detail::createCPUGenerator(seed));
}

void backward(const std::vector<PartitionedLayer>& layers, const torch::Tensor& input) {
  model::Tensors values{input};
  for (const PartitionedLayer& layer : layers) values = layer.part->forward(values);
  values.front().square().sum().backward();
}

std::vector<torch::Tensor> gradients(const std::vector<PartitionedLayer>& layers) {
  std::vector<torch::Tensor> all;
  for (const PartitionedLayer& layer : layers)
    for (const torch::Tensor& parameter : layer.part->parameters()) all.push_back(parameter.grad());
  return all;
}

void zero_grad(const std::vector<PartitionedLayer>& layers, bool set_to_none = true) {
  for (const PartitionedLayer& layer : layers) layer.part->zero_grad(set_to_none);
}

void expect_equal(const std::vector<PartitionedLayer>& got,
                  const std::vector<PartitionedLayer>& want) {
  const auto a = gradients(got), b = gradients(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i].defined()) << i;
    EXPECT_TRUE(torch::allclose(a[i], b[i], 1e-5, 1e-5 * b[i].abs().max().item<double>())) << i;
  }
}

int compute_all(LateGradients& late) {
  int calls = 0;
  while (late.compute_some()) ++calls;
  return calls;
}

// The same layers twice, the second time with autograd's gradients alone.
struct Twins {
  std::vector<PartitionedLayer> layers = make_layers(), alone = make_layers();
  LateGradients late{layers};

  void pass(std::uint64_t seed, std::int64_t count = 4) {
    for (const auto* each : {&layers, &alone}) backward(*each, rows(seed, count));
  }
  void clear() {
    for (const auto* each : {&layers, &alone}) zero_grad(*each);
  }
  // What is left is computed, and how many calls that takes.
  int finish() {
    const int calls = compute_all(late);
    expect_equal(layers, alone);
    return calls;
  }
};

TEST(LateGradients, AreThoseOfBackwardOverAllPasses) {
  Twins twins;
  for (std::uint64_t step = 0; step < 3; ++step) {
    twins.clear();
    twins.late.gather(true);
    for (std::uint64_t pass = 0; pass < 3; ++pass) twins.pass(10 * step + pass);
    EXPECT_FALSE(twins.layers[0].part->parameters()[0].grad().defined());
    EXPECT_TRUE(twins.layers[0].part->parameters()[1].grad().defined());  // the bias
    // In pieces: 1048, 1048 and 204 rows, and all of the other.
    EXPECT_EQ(twins.finish(), 3 + 1);
  }
}

TEST(LateGradients, AreAddedToWhatIsThere) {
  Twins twins;
  for (int times = 0; times < 3; ++times) {  // the memory of the first one is in use by the second
    twins.late.gather(true);
    twins.pass(1);
    twins.finish();
  }
  zero_grad(twins.layers, /*set_to_none=*/false);
  zero_grad(twins.alone);
  twins.late.gather(true);
  twins.pass(2);
  twins.finish();
}

TEST(LateGradients, OfAStepThatWasGivenUpAreForgotten) {
  Twins twins;
  twins.late.gather(true);
  backward(twins.layers, rows(1));
  EXPECT_TRUE(twins.late.compute_some());
  EXPECT_TRUE(twins.late.compute_some());  // the first piece of the larger one
  twins.late.gather(true);
  EXPECT_FALSE(twins.late.compute_some());
  twins.clear();
  twins.pass(2);
  twins.finish();
}

// 33 samples have more values in and out than the smaller weight has; 700 more than the larger one.
TEST(LateGradients, ManySamplesAreNotKept) {
  Twins twins;
  for (const std::int64_t count : {33, 700}) {
    twins.clear();
    twins.late.gather(true);
    for (std::uint64_t pass = 0; pass < 2; ++pass) twins.pass(pass, count);
    EXPECT_TRUE(twins.layers[1].part->parameters()[0].grad().defined());
    EXPECT_EQ(twins.layers[0].part->parameters()[0].grad().defined(), count > 33);
    EXPECT_EQ(twins.late.left(), count == 33);
    twins.finish();
  }
}

TEST(LateGradients, AreBackwardsWhereTheyAreNotGathered) {
  Twins twins;
  twins.late.gather(true);
  twins.late.gather(false);
  twins.pass(1);
  EXPECT_EQ(twins.finish(), 0);
}

TEST(LateGradients, NotOfFrozenWeights) {
  const auto layers = make_layers();
  layers[0].part->parameters()[0].set_requires_grad(false);
  LateGradients late(layers);
  late.gather(true);
  backward(layers, rows(1));
  EXPECT_EQ(compute_all(late), 1);
  EXPECT_FALSE(layers[0].part->parameters()[0].grad().defined());
  EXPECT_TRUE(layers[1].part->parameters()[0].grad().defined());
}

}  // namespace
}  // namespace convoy::train
