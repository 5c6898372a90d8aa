// The fused optimizers against LibTorch's own.
#include "convoy/train/fused_optimizers.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <sstream>

#include "convoy/train/layout.h"

namespace {

using namespace convoy::train;
using torch::optim::AdagradOptions;
using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

// Some layouts and sizes, one of them longer than a piece of the parallel loop; double, so that a
// difference of formulas can't hide in rounding.
std::vector<torch::Tensor> make_parameters(torch::Dtype type = torch::kDouble) {
  torch::manual_seed(5);
  std::vector<torch::Tensor> parameters{
      torch::randn({70, 1001}),
      torch::randn({13}),
      torch::randn({}),
      torch::randn({0, 3}),
      torch::randn({6, 5, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast),
      torch::randn({8, 4, 1, 1}),
      torch::randn({40, 60}).t()};
  for (auto& p : parameters) p = p.to(type).set_requires_grad(true);
  return parameters;
}

void set_gradients(const std::vector<torch::Tensor>& parameters, int step) {
  torch::manual_seed(100 + step);
  for (const auto& p : parameters) {
    // randn fills by logical index, and the layout of the result is the row-major one: for some
    // parameters another than their own.
    p.mutable_grad() = torch::randn(p.sizes(), p.scalar_type());
  }
}

void expect_close(const std::vector<torch::Tensor>& got, const std::vector<torch::Tensor>& wanted,
                  double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(torch::allclose(got[i], wanted[i], tolerance, tolerance)) << "parameter " << i;
  }
}

template <typename FusedType, typename PlainType, typename OptionsType>
struct Pair {
  using Fused = FusedType;
  using Plain = PlainType;
  using Options = OptionsType;
};

template <typename P>
class FusedOptimizers : public testing::Test {
 public:
  static std::vector<typename P::Options> options();
};

template <>
std::vector<SGDOptions> FusedOptimizers<Pair<FusedSgd, torch::optim::SGD, SGDOptions>>::options() {
  return {SGDOptions(0.1), SGDOptions(0.1).weight_decay(0.01).momentum(0.9),
          SGDOptions(0.1).momentum(0.9).dampening(0.4),
          SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.1)};
}
template <>
std::vector<AdamOptions>
FusedOptimizers<Pair<FusedAdam, torch::optim::Adam, AdamOptions>>::options() {
  return {AdamOptions(0.01), AdamOptions(0.01).weight_decay(0.1).eps(1e-3),
          AdamOptions(0.01).amsgrad(true).betas({0.7, 0.8})};
}
template <>
std::vector<AdamWOptions>
FusedOptimizers<Pair<FusedAdamW, torch::optim::AdamW, AdamWOptions>>::options() {
  return {AdamWOptions(0.01), AdamWOptions(0.01).weight_decay(0.3).amsgrad(true)};
}
template <>
std::vector<AdagradOptions>
FusedOptimizers<Pair<FusedAdagrad, torch::optim::Adagrad, AdagradOptions>>::options() {
  return {AdagradOptions(0.1),
          AdagradOptions(0.1).lr_decay(0.2).weight_decay(0.1).initial_accumulator_value(0.3)};
}

using Pairs = testing::Types<Pair<FusedSgd, torch::optim::SGD, SGDOptions>,
                             Pair<FusedAdam, torch::optim::Adam, AdamOptions>,
                             Pair<FusedAdamW, torch::optim::AdamW, AdamWOptions>,
                             Pair<FusedAdagrad, torch::optim::Adagrad, AdagradOptions>>;
TYPED_TEST_SUITE(FusedOptimizers, Pairs);

TYPED_TEST(FusedOptimizers, StepAsLibTorchs) {
  for (const auto& options : TestFixture::options()) {
    const auto mine = make_parameters(), theirs = make_parameters();
    typename TypeParam::Fused fused(mine, options);
    typename TypeParam::Plain plain(theirs, options);
    for (int step = 0; step < 4; ++step) {
      if (step == 2) {  // a schedule
        fused.param_groups()[0].options().set_lr(0.003);
        plain.param_groups()[0].options().set_lr(0.003);
      }
      set_gradients(mine, step);
      set_gradients(theirs, step);
      if (step == 1) mine[1].mutable_grad() = theirs[1].mutable_grad() = torch::Tensor();
      fused.step();
      plain.step();
    }
    expect_close(mine, theirs);
    EXPECT_TRUE(mine[4].is_contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

TYPED_TEST(FusedOptimizers, FloatStepsAgreeWithinRounding) {
  const auto mine = make_parameters(torch::kFloat), theirs = make_parameters(torch::kFloat);
  typename TypeParam::Fused fused(mine, TestFixture::options()[1]);
  typename TypeParam::Plain plain(theirs, TestFixture::options()[1]);
  for (int step = 0; step < 4; ++step) {
    set_gradients(mine, step);
    set_gradients(theirs, step);
    fused.step();
    plain.step();
  }
  expect_close(mine, theirs, 1e-5);
}

TYPED_TEST(FusedOptimizers, ArchivesGoBothWays) {
  const auto options = TestFixture::options()[1];
  const auto mine = make_parameters(), theirs = make_parameters();
  typename TypeParam::Fused fused(mine, options);
  typename TypeParam::Plain plain(theirs, options);
  for (int step = 0; step < 2; ++step) {
    set_gradients(mine, step);
    set_gradients(theirs, step);
    fused.step();
    plain.step();
  }
  std::stringstream from_fused, from_plain;
  torch::save(fused, from_fused);
  torch::save(plain, from_plain);
  typename TypeParam::Fused resumed_fused(mine, options);
  typename TypeParam::Plain resumed_plain(theirs, options);
  torch::load(resumed_fused, from_plain);
  torch::load(resumed_plain, from_fused);
  set_gradients(mine, 2);
  set_gradients(theirs, 2);
  resumed_fused.step();
  resumed_plain.step();
  expect_close(mine, theirs);
}

TYPED_TEST(FusedOptimizers, BitsDoNotDependOnThreads) {
  std::vector<std::vector<torch::Tensor>> results;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    results.push_back(make_parameters(torch::kFloat));
    typename TypeParam::Fused fused(results.back(), TestFixture::options()[1]);
    for (int step = 0; step < 3; ++step) {
      set_gradients(results.back(), step);
      fused.step();
    }
  }
  at::set_num_threads(1);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(results[0][i], results[1][i]));
  }
}

// What the rules can't do (half precision, sparse gradients, strided views) LibTorch does.
TYPED_TEST(FusedOptimizers, FallBackToLibTorch) {
  const auto base = [] {
    torch::manual_seed(2);
    return std::vector<torch::Tensor>{
        torch::randn({6, 8}).slice(1, 0, 8, 2).set_requires_grad(true),
        torch::randn({5}).to(torch::kBFloat16).set_requires_grad(true)};
  };
  const auto mine = base(), theirs = base();
  typename TypeParam::Fused fused(mine, TestFixture::options()[0]);
  typename TypeParam::Plain plain(theirs, TestFixture::options()[0]);
  for (int step = 0; step < 2; ++step) {
    set_gradients(mine, step);
    set_gradients(theirs, step);
    fused.step();
    plain.step();
  }
  expect_close(mine, theirs, 1e-6);
}

TEST(FusedSgd, TakesSparseGradientsAndClosures) {
  auto weight = torch::ones({4, 2}).set_requires_grad(true);
  FusedSgd optimizer({weight}, SGDOptions(1));
  const auto loss = optimizer.step([&] {
    auto value = torch::embedding(weight, torch::tensor({1}), -1, false, /*sparse=*/true).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<double>(), 2);
  EXPECT_EQ(weight.sum().item<double>(), 6);
}

TEST(FusedSgd, StaysValidWhenTheLayoutChanges) {
  const auto train = [](bool convert) {
    torch::manual_seed(1);
    torch::nn::Sequential model(torch::nn::Conv2d(3, 4, 3), torch::nn::BatchNorm2d(4));
    FusedSgd optimizer(model->parameters(), SGDOptions(0.1).momentum(0.9));
    const auto images = torch::randn({2, 3, 8, 8});
    for (int step = 0; step < 4; ++step) {
      if (convert && step == 2) to_channels_last(*model);
      optimizer.zero_grad();
      model->forward(images).pow(3).mean().backward();
      optimizer.step();
    }
    EXPECT_EQ(model[0]->parameters()[0].is_contiguous(torch::MemoryFormat::ChannelsLast), convert);
    return model->parameters();
  };
  expect_close(train(true), train(false), 1e-5);
}

TEST(FusedSgd, GroupsHaveTheirOwnOptions) {
  const auto a = torch::ones({3}).set_requires_grad(true);
  const auto b = torch::ones({3}).set_requires_grad(true);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{a}, std::make_unique<SGDOptions>(0.5));
  groups.emplace_back(std::vector<torch::Tensor>{b});
  FusedSgd optimizer(groups, SGDOptions(0.25));
  a.mutable_grad() = torch::ones({3});
  b.mutable_grad() = torch::ones({3});
  optimizer.step();
  EXPECT_EQ(a[0].item<double>(), 0.5);
  EXPECT_EQ(b[0].item<double>(), 0.75);
}

TEST(FusedSgd, AutogradNoticesTheChange) {
  auto weight = torch::ones({3}).set_requires_grad(true);
  FusedSgd optimizer({weight}, SGDOptions(1));
  const auto loss = (weight * weight).sum();  // keeps the weights for backward
  weight.mutable_grad() = torch::ones({3});
  optimizer.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

}  // namespace
