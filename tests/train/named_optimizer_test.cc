#include "convoy/train/named_optimizer.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "examples/plugin/lion.h"
#include "tests/train/own_keys.h"

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

// What a rank has of a network may have nothing for some groups, or nothing to train.
TEST(NamedOptimizer, PartsOfANetwork) {
  OptimizerRecipe recipe{.name = "adam"};
  recipe.groups = {{.parameters = {"layer9.*"}}, {.parameters = {"conv.*"}}};
  auto all = parameters();
  NamedOptimizer optimizer(recipe, all);
  give_gradients(all, 0);
  optimizer.set_learning_rate(0.1);
  optimizer.step();
  NamedOptimizer nothing(recipe, {all.back()});
  nothing.set_learning_rate(0.1);
  nothing.zero_grad();
  nothing.step();
  State state;
  nothing.save(state);
  EXPECT_TRUE(state.optimizer.empty());
}

TEST(NamedOptimizer, APluginsHasToBeBroughtAlong) {
  EXPECT_THROW(NamedOptimizer({.name = "signum"}, parameters()), std::logic_error);
}

// Of float16 as of float32, and of channels-last weights: where the fused rule can't be used.
TEST(NamedOptimizer, VelocityOfAnyTensor) {
  OptimizerRecipe recipe{.name = "sgd_velocity",
                         .lr = 0.1,
                         .weight_decay = 0.1,
                         .options = own_keys({{"momentum", 0.9}})};
  auto fused = parameters(), plain = parameters();
  for (auto& p : plain)
    p.tensor = p.tensor.detach().to(torch::kBFloat16).set_requires_grad(p.tensor.requires_grad());
  NamedOptimizer a(recipe, fused), b(recipe, plain);
  for (int step = 0; step < 3; ++step) {
    give_gradients(fused, step);
    for (std::size_t i = 0; i + 1 < plain.size(); ++i)
      plain[i].tensor.mutable_grad() = fused[i].tensor.grad().to(torch::kBFloat16);
    a.set_learning_rate(0.1 / (step + 1));
    b.set_learning_rate(0.1 / (step + 1));
    a.step();
    b.step();
  }
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(plain[i].tensor.to(torch::kFloat).allclose(fused[i].tensor, 0.05, 0.02));
}

// One parameter after another, by the equations of the papers.
class Layerwise : public testing::TestWithParam<const char*> {};

TEST_P(Layerwise, IsThePapersOfEachParameter) {
  const bool lars = std::string(GetParam()) == "lars";
  OptimizerRecipe recipe{.name = GetParam(), .weight_decay = 0.1};
  if (lars) recipe.options = own_keys({{"momentum", 0.9}});
  recipe.groups = {{.parameters = {"bn.*"}, .weight_decay = 0, .trust_min_dims = 0}};
  auto all = parameters();
  std::vector<torch::Tensor> weights, first, second;
  for (auto& p : all) {
    p.tensor = p.tensor.detach().to(torch::kDouble).set_requires_grad(p.tensor.requires_grad());
    weights.push_back(p.tensor.detach().clone());
    first.push_back(torch::zeros_like(weights.back()));
    second.push_back(torch::zeros_like(weights.back()));
  }
  NamedOptimizer optimizer(recipe, all);
  const auto norm = [](const torch::Tensor& t) { return t.norm().item<double>(); };
  for (int step = 1; step <= 5; ++step) {
    const double lr = 0.5 / step;
    torch::manual_seed(step);
    optimizer.zero_grad();
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      const torch::Tensor g = torch::randn(all[i].tensor.sizes(), torch::kDouble);
      all[i].tensor.mutable_grad() = g.clone();
      torch::Tensor& w = weights[i];
      const bool scaled = all[i].name != "conv.bias";
      const double decay = all[i].name == "bn.weight" ? 0 : 0.1;
      if (lars) {
        const double ratio = 0.001 * norm(w) / (norm(g) + decay * norm(w));
        first[i] = 0.9 * first[i] + lr * (scaled ? ratio : 1) * (g + decay * w);
        w = w - first[i];
      } else {
        first[i] = 0.9 * first[i] + 0.1 * g;
        second[i] = 0.999 * second[i] + 0.001 * g * g;
        const torch::Tensor u = first[i] / (1 - std::pow(0.9, step)) /
                                    ((second[i] / (1 - std::pow(0.999, step))).sqrt() + 1e-6) +
                                decay * w;
        w = w - lr * (scaled ? norm(w) / norm(u) : 1) * u;
      }
    }
    optimizer.set_learning_rate(lr);
    optimizer.step();
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(all[i].tensor.allclose(weights[i], 1e-12, 1e-13)) << all[i].name;
}

// More than one piece of a parameter, and whatever the number of threads.
TEST_P(Layerwise, TheNumberOfThreadsChangesNoBit) {
  const int threads = at::get_num_threads();
  std::vector<torch::Tensor> ends;
  for (const int n : {1, 4}) {
    at::set_num_threads(n);
    torch::manual_seed(4);
    std::vector<parallel::NamedTensor> one{{"w", torch::randn({200'001, 1})}};
    one[0].tensor.set_requires_grad(true);
    NamedOptimizer optimizer({.name = GetParam(), .lr = 0.1}, one);
    for (int step = 0; step < 3; ++step) {
      one[0].tensor.mutable_grad() = torch::randn({200'001, 1});
      optimizer.step();
    }
    ends.push_back(one[0].tensor.detach());
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(ends[0].equal(ends[1]));
}

// Where the fused rule can't be used.
TEST_P(Layerwise, OfAnyTensor) {
  OptimizerRecipe recipe{.name = GetParam(), .weight_decay = 0.1};
  auto fused = parameters(), plain = parameters();
  for (auto& p : plain)
    p.tensor = p.tensor.detach().to(torch::kBFloat16).set_requires_grad(p.tensor.requires_grad());
  NamedOptimizer a(recipe, fused), b(recipe, plain);
  for (int step = 0; step < 3; ++step) {
    give_gradients(fused, step);
    for (std::size_t i = 0; i + 1 < plain.size(); ++i)
      plain[i].tensor.mutable_grad() = fused[i].tensor.grad().to(torch::kBFloat16);
    for (NamedOptimizer* optimizer : {&a, &b}) {
      optimizer->set_learning_rate(0.1);
      optimizer->step();
    }
  }
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(plain[i].tensor.to(torch::kFloat).allclose(fused[i].tensor, 0.05, 0.02));
}

INSTANTIATE_TEST_SUITE_P(Rules, Layerwise, testing::Values("lars", "lamb"),
                         [](const auto& info) { return std::string(info.param); });

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
    testing::Values(
        OptimizerRecipe{.name = "sgd", .lr = 0.1},
        OptimizerRecipe{
            .name = "sgd", .lr = 0.1, .options = own_keys({{"momentum", 0.9}, {"nesterov", true}})},
        OptimizerRecipe{
            .name = "sgd_velocity", .lr = 0.1, .options = own_keys({{"momentum", 0.9}})},
        OptimizerRecipe{.name = "adam", .lr = 0.1, .options = own_keys({{"amsgrad", true}})},
        OptimizerRecipe{.name = "adamw", .lr = 0.1, .weight_decay = 0.1},
        OptimizerRecipe{.name = "lars", .lr = 5, .options = own_keys({{"momentum", 0.9}})},
        OptimizerRecipe{.name = "lamb", .lr = 0.1, .weight_decay = 0.1},
        OptimizerRecipe{.name = "adagrad",
                        .lr = 0.1,
                        .options = own_keys({{"lr_decay", 0.1}, {"initial_accumulator", 0.5}})}),
    [](const auto& info) { return info.param.name + std::to_string(info.index); });

// The example plugin's, against its formula one number at a time.
TEST(NamedOptimizer, LionOfTheExample) {
  const auto make = [](const OptimizerRequest& r) { return lion(0.9, 0.99, r.weight_decay); };
  auto all = parameters();
  OptimizerRecipe recipe{.name = "lion", .weight_decay = 0.1};
  recipe.groups = {{.max_dims = 1, .lr_scale = 2, .weight_decay = 0}};
  std::vector<std::vector<double>> weights, momenta;
  for (auto& p : all) {
    p.tensor = p.tensor.detach().to(torch::kDouble).set_requires_grad(p.tensor.requires_grad());
    const double* first = p.tensor.const_data_ptr<double>();
    weights.emplace_back(first, first + p.tensor.numel());
    momenta.emplace_back(weights.back().size(), 0.0);
  }
  NamedOptimizer optimizer(recipe, all, make);
  for (int step = 0; step < 5; ++step) {
    const double lr = 0.1 / (step + 1);
    optimizer.zero_grad();
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      torch::Tensor g = torch::randn(all[i].tensor.sizes(), torch::kDouble);
      all[i].tensor.mutable_grad() = g.clone();
      const bool vector = all[i].tensor.dim() == 1;
      const double rate = vector ? 2 * lr : lr, decay = vector ? 0 : 0.1;
      for (std::size_t k = 0; k < weights[i].size(); ++k) {
        const double gradient = g.const_data_ptr<double>()[k];
        double &w = weights[i][k], &m = momenta[i][k];
        const double c = 0.9 * m + 0.1 * gradient;
        w -= rate * ((c > 0 ? 1 : c < 0 ? -1 : 0) + decay * w);
        m = 0.99 * m + 0.01 * gradient;
      }
    }
    optimizer.set_learning_rate(lr);
    optimizer.step();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < weights[i].size(); ++k)
      EXPECT_NEAR(all[i].tensor.const_data_ptr<double>()[k], weights[i][k], 1e-12) << all[i].name;
  }
  EXPECT_THROW(lion(1, 0.99, 0), UsageError);
  EXPECT_THROW(lion(0.9, -0.1, 0), UsageError);
}

// As sgd and the others: state of a plugin's optimizer is under the names of parameters.
TEST(NamedOptimizer, StateOfAPluginsOptimizer) {
  const auto make = [](const OptimizerRequest& r) { return lion(0.9, 0.99, r.weight_decay); };
  auto all = parameters();
  NamedOptimizer whole({.name = "lion"}, all, make);
  whole.set_learning_rate(0.1);
  for (int step = 0; step < 2; ++step) {
    give_gradients(all, step);
    if (step == 1) all[1].tensor.mutable_grad().reset();  // unused in this step
    whole.step();
  }
  State state;
  whole.save(state);
  EXPECT_EQ(state.optimizer.size(), 3u);
  EXPECT_TRUE(state.optimizer.contains("momentum/bn.weight"));
  EXPECT_EQ(state.numbers.at("optimizer.step/bn.weight"), 2);
  EXPECT_EQ(state.numbers.at("optimizer.step/conv.bias"), 1);
  EXPECT_EQ(state.numbers.at("optimizer.step/conv.weight"), 2);
  EXPECT_THROW(NamedOptimizer({.name = "sgd"}, parameters()).load(state), UsageError);
  State wrong = state;
  wrong.optimizer["momentum/conv.bias"] = torch::zeros({3});
  EXPECT_THROW(NamedOptimizer({.name = "lion"}, parameters(), make).load(wrong), UsageError);
}

TEST(NamedOptimizer, StateOfAnotherOptimizer) {
  auto all = parameters();
  NamedOptimizer adam({.name = "adam"}, all);
  give_gradients(all, 0);
  adam.step();
  State state;
  adam.save(state);
  const OptimizerRecipe sgd{.name = "sgd", .options = own_keys({{"momentum", 0.9}})};
  EXPECT_THROW(NamedOptimizer(sgd, parameters()).load(state), UsageError);
}

// A rule of Convoy's under another name, with keys of its own and other defaults: the same bits and
// slots as the built-in one has with these values, in one pass over memory.
TEST(NamedOptimizer, OneOfConvoysRulesUnderAnotherName) {
  OptimizerKind kind;
  kind.name = "slow_adam";
  kind.options = {{"memory", 0.99, "decay of both means"}};
  kind.rule = [](const OptimizerRequest& r) -> optim::Rule {
    const double memory = r.options.number("memory");
    return optim::Adam{.beta1 = memory, .beta2 = memory, .weight_decay = r.weight_decay};
  };
  OptimizerRecipe mine{.name = "slow_adam", .lr = 0.1, .weight_decay = 0.1};
  mine.kind = std::make_shared<OptimizerKind>(kind);
  OptimizerRecipe adam{.name = "adam",
                       .lr = 0.1,
                       .weight_decay = 0.1,
                       .options = own_keys({{"beta1", 0.99}, {"beta2", 0.99}})};
  adam.groups = mine.groups = {{.max_dims = 1, .lr_scale = 2, .weight_decay = 0}};
  auto a = parameters(), b = parameters();
  NamedOptimizer one(mine, a), other(adam, b);
  for (int step = 0; step < 3; ++step) {
    give_gradients(a, step);
    give_gradients(b, step);
    one.step();
    other.step();
  }
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].tensor.equal(b[i].tensor));
  State of_one, of_other;
  one.save(of_one);
  other.save(of_other);
  EXPECT_EQ(of_one.numbers, of_other.numbers);
  ASSERT_EQ(of_one.optimizer.size(), 6u);
  for (const auto& [name, tensor] : of_one.optimizer)
    EXPECT_TRUE(tensor.equal(of_other.optimizer.at(name))) << name;
}

// What one of a plugin's does that keeps nothing of a parameter.
class SignOnly final : public UpdateRule {
 public:
  void update(const ParameterUpdate& u) const override {
    EXPECT_TRUE(u.slots.empty());
    torch::Tensor weights = u.parameter;
    weights.sub_(u.gradient.sign(), u.lr);
  }
};

TEST(NamedOptimizer, OneWithoutState) {
  const auto make = [](const OptimizerRequest&) { return std::make_unique<SignOnly>(); };
  auto all = parameters();
  NamedOptimizer optimizer({.name = "sign_only"}, all, make);
  const torch::Tensor before = all[0].tensor.detach().clone();
  give_gradients(all, 0);
  optimizer.set_learning_rate(0.25);
  optimizer.step();
  const torch::Tensor expected = before - 0.25 * all[0].tensor.grad().sign();
  EXPECT_TRUE(all[0].tensor.detach().equal(expected));
  State state;
  optimizer.save(state);
  EXPECT_TRUE(state.optimizer.empty());
  EXPECT_EQ(state.numbers.at("optimizer.step/conv.weight"), 1);
  NamedOptimizer resumed({.name = "sign_only"}, parameters(), make);
  EXPECT_NO_THROW(resumed.load(state));
  // It has no use for what another has kept.
  State other = state;
  other.optimizer["momentum/conv.weight"] = torch::zeros({4, 3});
  EXPECT_THROW(resumed.load(other), UsageError);
}

}  // namespace
}  // namespace convoy::train
