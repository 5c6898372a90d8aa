#include "convoy/train/named_optimizer.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

std::vector<parallel::NamedTensor> parameters() {
  torch::manual_seed(3);
  std::vector<parallel::NamedTensor> all{{"conv.weight", torch::randn({4, 3})},
                                         {"conv.bias", torch::randn({4})},
                                         {"bn.weight", torch::randn({4})},
                                         {"frozen", torch::randn({2})}};
  for (auto& p : all) p.tensor.set_requires_grad(p.name != "frozen");
  return all;
}

void give_gradients(std::vector<parallel::NamedTensor>& all, int step) {
  torch::manual_seed(100 + step);
  for (auto& p : all) {
    if (p.tensor.requires_grad()) p.tensor.mutable_grad() = torch::randn(p.tensor.sizes());
  }
}

// Weight decay alone moves a weight when its gradient is 0.
TEST(NamedOptimizer, Groups) {
  OptimizerRecipe recipe{.name = "sgd", .lr = 0.1, .weight_decay = 0.5};
  recipe.groups = {{.parameters = {"bn.*"}, .lr_scale = 2, .weight_decay = -1},
                   {.max_dims = 1, .weight_decay = 0}};
  auto all = parameters();
  std::vector<torch::Tensor> before;
  for (auto& p : all) {
    before.push_back(p.tensor.detach().clone());
    if (p.tensor.requires_grad()) p.tensor.mutable_grad() = torch::zeros(p.tensor.sizes());
  }
  NamedOptimizer optimizer(recipe, all);
  optimizer.set_learning_rate(0.2);
  optimizer.step();
  const auto factor = [&](std::size_t i) {
    return (all[i].tensor.detach() / before[i]).mean().item<double>();
  };
  EXPECT_NEAR(factor(0), 1 - 0.2 * 0.5, 1e-6);
  EXPECT_NEAR(factor(1), 1, 1e-6);
  EXPECT_NEAR(factor(2), 1 - 0.4 * 0.5, 1e-6);
  EXPECT_NEAR(factor(3), 1, 1e-6);
}

TEST(NamedOptimizer, AGroupThatFitsNothing) {
  OptimizerRecipe recipe;
  recipe.groups = {{.parameters = {"layer9.*"}}};
  EXPECT_THROW(NamedOptimizer(recipe, parameters()), UsageError);
}

class StateOf : public testing::TestWithParam<OptimizerRecipe> {};

TEST_P(StateOf, GoesOnAsIfNothingHadHappened) {
  auto a = parameters();
  NamedOptimizer whole(GetParam(), a);
  State saved;
  std::vector<torch::Tensor> middle;
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      whole.save(saved);
      for (auto& [name, tensor] : saved.optimizer) tensor = tensor.clone();
      for (auto& p : a) middle.push_back(p.tensor.detach().clone());
    }
    give_gradients(a, step);
    whole.step();
  }
  auto b = parameters();
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < b.size(); ++i) b[i].tensor.copy_(middle[i]);
  NamedOptimizer resumed(GetParam(), b);
  resumed.load(saved);
  for (int step = 3; step < 6; ++step) {
    give_gradients(b, step);
    resumed.step();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].tensor.equal(b[i].tensor)) << a[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StateOf,
    testing::Values(OptimizerRecipe{.name = "sgd", .lr = 0.1},
                    OptimizerRecipe{.name = "sgd", .lr = 0.1, .momentum = 0.9, .nesterov = true},
                    OptimizerRecipe{.name = "adam", .lr = 0.1, .amsgrad = true},
                    OptimizerRecipe{.name = "adamw", .lr = 0.1, .weight_decay = 0.1},
                    OptimizerRecipe{
                        .name = "adagrad", .lr = 0.1, .lr_decay = 0.1, .initial_accumulator = 0.5}),
    [](const auto& info) { return info.param.name + std::to_string(info.index); });

TEST(NamedOptimizer, StateOfAnotherOptimizer) {
  auto all = parameters();
  NamedOptimizer adam({.name = "adam"}, all);
  give_gradients(all, 0);
  adam.step();
  State state;
  adam.save(state);
  EXPECT_THROW(NamedOptimizer({.name = "sgd", .momentum = 0.9}, parameters()).load(state),
               UsageError);
}

}  // namespace
}  // namespace convoy::train
