// Layers of local networks: memory, half precision, no samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/model/allocations.h"
#include "tests/model/one_layer.h"

namespace convoy::model {
namespace {

using torch::Tensor;

// Of 50 MB that the filters of one row of positions see.
TEST(LocallyConnected, CopiesOfImagesStaySmall) {
  const layer::LocallyConnected local{
      .in = 16, .out = 2, .image = {11, 40}, .kernel = {10, 10}, .stride = {1, 1}};
  constexpr std::int64_t kSamples = 256, kHalf = kSamples / 2;
  const auto together = stage_of(local, torch::kFloat), alone = stage_of(local, torch::kFloat);
  torch::manual_seed(3);
  const Tensor images = torch::randn({kSamples, 16, 11, 40}).requires_grad_();
  const Tensor halves = images.detach().clone().requires_grad_();
  Tensor output;
  const Allocations seen = allocations_of([&] {
    output = together->forward({images}).front();
    output.square().sum().backward();
  });
  EXPECT_LE(seen.largest, std::int64_t{32} << 20);
  EXPECT_GT(seen.largest, std::int64_t{16} << 20);  // not one position after the other
  for (const std::int64_t begin : {std::int64_t{0}, kHalf}) {
    const Tensor own = alone->forward({halves.narrow(0, begin, kHalf)}).front();
    EXPECT_LT(difference(own, output.narrow(0, begin, kHalf).to(torch::kDouble)), 1e-4);
    own.square().sum().backward();
  }
  EXPECT_LT(difference(halves.grad(), images.grad().to(torch::kDouble)), 1e-3);
  const auto ours = together->named_parameters(), theirs = alone->named_parameters();
  for (const auto& item : ours) {
    const Tensor wanted = theirs[item.key()].grad().to(torch::kDouble);
    EXPECT_LT(difference(item.value().grad(), wanted), 1e-5 * wanted.abs().max().item<double>())
        << item.key();
  }
}

// 64 filters see a pixel: sums of so many keep the eight bits of what they are made of.
TEST(LocallyConnected, SumsGradientsOfBfloat16InFloat32) {
  const layer::LocallyConnected local{.in = 1, .out = 4, .image = {24, 24}, .kernel = {8, 8}};
  const auto rough = stage_of(local, torch::kBFloat16);
  const auto exact = stage_of(local, torch::kBFloat16);  // of the same numbers
  exact->to(torch::kDouble);
  torch::manual_seed(8);
  const Tensor x = torch::randn({3, 1, 24, 24}).to(torch::kBFloat16).requires_grad_();
  const Tensor same = x.detach().to(torch::kDouble).requires_grad_();
  const Tensor got = rough->forward({x}).front(), wanted = exact->forward({same}).front();
  const Tensor factors = torch::randn_like(got.detach());
  got.backward(factors);
  wanted.backward(factors.to(torch::kDouble));
  EXPECT_EQ(x.grad().scalar_type(), torch::kBFloat16);
  const Tensor error = x.grad().to(torch::kDouble) - same.grad();
  EXPECT_LT(error.norm().item<double>(), 0.0025 * same.grad().norm().item<double>());
}

// Its input is kept as it is, not in float32 as well.
TEST(L2Pool, KeepsNoCopyOfBfloat16) {
  const auto pool = stage_of(layer::L2Pool{{2, 2}, {2, 2}});
  const Tensor x = torch::randn({2, 4, 32, 32}).to(torch::kBFloat16).requires_grad_();
  Tensor output;
  const Allocations seen = allocations_of([&] { output = pool->forward({x}).front(); });
  EXPECT_EQ(output.scalar_type(), torch::kFloat);
  EXPECT_EQ(seen.held, 2 * 4 * 16 * 16 * 4);
  output.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), torch::kBFloat16);
}

// Gradients are computed in float32 also where autocast is on by then.
TEST(LocalLayers, HaveTheSameGradientsUnderAutocast) {
  for (const layer::Kind& kind : {layer::Kind(layer::LocalContrastNorm{{5, 5}, 1.25}),
                                  layer::Kind(layer::LocalContrastNorm{{3, 3}, 0, 0.1, true}),
                                  layer::Kind(layer::L2Pool{{3, 3}, {1, 1}})}) {
    const auto stage = stage_of(kind);
    SCOPED_TRACE(kind_name(stage->spec().nodes[0]));
    torch::manual_seed(9);
    const Tensor x = torch::randn({2, 3, 9, 8}).requires_grad_();
    const Tensor same = x.detach().clone().requires_grad_();
    stage->forward({x}).front().square().sum().backward();
    const Tensor loss = stage->forward({same}).front().square().sum();
    const Bfloat16 autocast;
    loss.backward();
    EXPECT_TRUE(same.grad().equal(x.grad()));
  }
}

// A part of an image with what surrounds it has the values of the whole: what is not a number stays
// among those that see it.
TEST(LocalContrastNorm, DependsOnItsSurroundingsAlone) {
  const auto norm = stage_of(layer::LocalContrastNorm{{3, 5}, 1});
  torch::manual_seed(10);
  Tensor x = torch::randn({1, 2, 12, 15}, torch::kDouble);
  const Tensor whole = norm->forward({x}).front();
  const Tensor part = norm->forward({x.narrow(2, 2, 8).narrow(3, 0, 9)}).front();
  const auto inside = [](const Tensor& image, std::int64_t row) {
    return image.narrow(2, row, 4).narrow(3, 0, 5);
  };
  EXPECT_LT(difference(inside(part, 2), inside(whole, 4)), 1e-14);
  x[0][1][6][7] = std::nan("");
  const Tensor broken = norm->forward({x}).front().isnan();
  EXPECT_EQ(broken.narrow(2, 4, 5).narrow(3, 3, 9).sum().item<std::int64_t>(),
            broken.sum().item<std::int64_t>());
  EXPECT_TRUE(broken[0][0][6][7].item<bool>());
}

// Right or refused.
TEST(LocalLayers, HaveSecondDerivativesOrSayNot) {
  const Tensor x = torch::randn({1, 2, 4, 4}, torch::kDouble).requires_grad_();
  const auto first = [&](const layer::Kind& kind) {
    const Tensor output = stage_of(kind)->forward({x}).front();
    return torch::autograd::grad({output.sum()}, {x}, {}, /*retain_graph=*/true,
                                 /*create_graph=*/true)
        .front();
  };
  EXPECT_THROW(first(layer::LocalContrastNorm{{3, 3}}), c10::Error);
  const auto plain = [&] {
    const Tensor norms = torch::avg_pool2d(x * x, {2, 2}, {2, 2}, 0, false, true, 1).sqrt();
    return torch::autograd::grad({norms.sum()}, {x}, {}, true, true).front();
  };
  const auto second = [&](const Tensor& gradient) {
    return torch::autograd::grad({gradient.square().sum()}, {x}).front();
  };
  EXPECT_LT(difference(second(first(layer::L2Pool{{2, 2}, {2, 2}})), second(plain())), 1e-5);
}

TEST(LocalLayers, TakeNoSamples) {
  for (const layer::Kind& kind :
       {layer::Kind(layer::LocallyConnected{
            .in = 2, .out = 3, .image = {5, 6}, .kernel = {3, 2}, .padding = {1, 0}}),
        layer::Kind(layer::L2Pool{{3, 3}, {1, 1}}), layer::Kind(layer::LocalContrastNorm{{3, 3}}),
        layer::Kind(layer::LocalContrastNorm{{3, 3}, 0, 0.1, true}),
        layer::Kind(layer::Sigmoid())}) {
    const auto stage = stage_of(kind);
    SCOPED_TRACE(kind_name(stage->spec().nodes[0]));
    const Tensor x = torch::empty({0, 2, 5, 6}, torch::kDouble).requires_grad_();
    const Tensor output = stage->forward({x}).front();
    EXPECT_EQ(output.size(0), 0);
    output.sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
    for (const Tensor& parameter : stage->parameters())
      EXPECT_EQ(parameter.grad().abs().max().item<double>(), 0);
  }
}

// Also of what is not to be trained, and where nothing is.
TEST(LocallyConnected, ComputesTheGradientsThatAreWanted) {
  const layer::LocallyConnected local{.in = 2, .out = 3, .image = {5, 6}, .kernel = {3, 2}};
  const auto stage = stage_of(local);
  const auto parameters = stage->named_parameters();
  torch::manual_seed(11);
  const Tensor x = torch::randn({2, 2, 5, 6}, torch::kDouble).requires_grad_();
  const Tensor plain = x.detach();
  const Tensor output = stage->forward({x}).front();
  output.square().sum().backward();
  const Tensor of_image = x.grad().clone(), of_weight = parameters["layer.weight"].grad().clone();
  stage->zero_grad();
  stage->forward({plain}).front().square().sum().backward();  // the images' first layer
  EXPECT_TRUE(parameters["layer.weight"].grad().equal(of_weight));
  parameters["layer.weight"].set_requires_grad(false);
  stage->zero_grad();
  x.mutable_grad() = Tensor();
  // Twice in one graph, and twice backward.
  const Tensor twice = stage->forward({x}).front().square().sum() / 2 +
                       stage->forward({x}).front().square().sum() / 2;
  twice.backward({}, /*retain_graph=*/true);
  twice.backward();
  EXPECT_LT(difference(x.grad(), 2 * of_image), 1e-12);
  EXPECT_FALSE(parameters["layer.weight"].grad().defined());
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(stage->forward({x}).front().equal(output));
  EXPECT_FALSE(stage->forward({x}).front().requires_grad());
}

}  // namespace
}  // namespace convoy::model
