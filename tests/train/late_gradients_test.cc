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

TEST(LateGradients, AreThoseOfBackwardOverAllPasses) {
  const auto layers = make_layers(), alone = make_layers();
  LateGradients late(layers);
  for (int step = 0; step < 3; ++step) {
    zero_grad(layers);
    zero_grad(alone);
    late.gather(true);
    for (std::uint64_t pass = 0; pass < 3; ++pass) {
      for (const auto* each : {&layers, &alone})
        backward(*each, rows(10 * static_cast<std::uint64_t>(step) + pass));
    }
    EXPECT_FALSE(layers[0].part->parameters()[0].grad().defined());
    EXPECT_TRUE(layers[0].part->parameters()[1].grad().defined());  // the bias
    EXPECT_EQ(compute_all(late),
              3 + 1);  // in pieces: 1048, 1048 and 204 rows, and all of the other
    expect_equal(layers, alone);
  }
}

TEST(LateGradients, AreAddedToWhatIsThere) {
  const auto layers = make_layers(), alone = make_layers();
  LateGradients late(layers);
  for (int times = 0; times < 3; ++times) {  // the memory of the first one is in use by the second
    late.gather(true);
    backward(layers, rows(1));
    backward(alone, rows(1));
    compute_all(late);
    expect_equal(layers, alone);
  }
  zero_grad(layers, /*set_to_none=*/false);
  zero_grad(alone);
  late.gather(true);
  backward(layers, rows(2));
  backward(alone, rows(2));
  compute_all(late);
  expect_equal(layers, alone);
}

TEST(LateGradients, OfAStepThatWasGivenUpAreForgotten) {
  const auto layers = make_layers(), alone = make_layers();
  LateGradients late(layers);
  late.gather(true);
  backward(layers, rows(1));
  EXPECT_TRUE(late.compute_some());
  EXPECT_TRUE(late.compute_some());  // the first piece of the larger one
  late.gather(true);
  EXPECT_FALSE(late.compute_some());
  zero_grad(layers);
  backward(layers, rows(2));
  backward(alone, rows(2));
  compute_all(late);
  expect_equal(layers, alone);
}

// 33 samples have more values in and out than the smaller weight has; 700 more than the larger one.
TEST(LateGradients, ManySamplesAreNotKept) {
  const auto layers = make_layers(), alone = make_layers();
  LateGradients late(layers);
  for (const std::int64_t count : {33, 700}) {
    zero_grad(layers);
    zero_grad(alone);
    late.gather(true);
    for (std::uint64_t pass = 0; pass < 2; ++pass) {
      backward(layers, rows(pass, count));
      backward(alone, rows(pass, count));
    }
    EXPECT_TRUE(layers[1].part->parameters()[0].grad().defined());
    EXPECT_EQ(layers[0].part->parameters()[0].grad().defined(), count > 33);
    EXPECT_EQ(late.left(), count == 33);
    compute_all(late);
    expect_equal(layers, alone);
  }
}

TEST(LateGradients, AreBackwardsWhereTheyAreNotGathered) {
  const auto layers = make_layers(), alone = make_layers();
  LateGradients late(layers);
  late.gather(true);
  late.gather(false);
  backward(layers, rows(1));
  backward(alone, rows(1));
  EXPECT_FALSE(late.compute_some());
  expect_equal(layers, alone);
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
