#include "convoy/optim/rule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "tests/golden/fill.h"
#include "tests/golden/read.h"

namespace {

using namespace convoy::optim;
using convoy::UsageError;
using convoy::golden::fill;
using nlohmann::json;

Rule rule_of(const json& golden) {
  const std::string wanted = golden["rule"];
  const json& o = golden["options"];
  const auto take = [&](const char* key, double& value) { value = o.value(key, value); };
  const auto adam = [&](auto rule) {
    take("lr", rule.lr), take("beta1", rule.beta1), take("beta2", rule.beta2);
    take("eps", rule.eps), take("weight_decay", rule.weight_decay);
    rule.amsgrad = o.value("amsgrad", false);
    return rule;
  };
  if (wanted == "adam") return adam(Adam{});
  if (wanted == "adamw") return adam(AdamW{});
  if (wanted == "adagrad") {
    Adagrad rule;
    take("lr", rule.lr), take("lr_decay", rule.lr_decay), take("eps", rule.eps);
    take("weight_decay", rule.weight_decay);
    take("initial_accumulator_value", rule.initial_accumulator_value);
    return rule;
  }
  Sgd rule;
  take("lr", rule.lr), take("momentum", rule.momentum), take("dampening", rule.dampening);
  take("weight_decay", rule.weight_decay);
  rule.nesterov = o.value("nesterov", false);
  return rule;
}

// Weights and state, and the updates of the golden script on them, cut into two pieces at `cut`.
template <typename T>
struct Training {
  std::vector<T> weights;
  std::vector<std::vector<T>> state;

  Training(const Rule& rule, std::size_t count) : weights(fill<T>("weights", count)) {
    for (const Slot& slot : slots(rule)) state.emplace_back(count, static_cast<T>(slot.initial));
  }

  void steps(const Rule& rule, int count, std::size_t cut = 0) {
    for (int step = 1; step <= count; ++step) {
      const auto gradient = fill<T>("gradient " + std::to_string(step), weights.size());
      piece(rule, step, gradient, 0, cut);
      piece(rule, step, gradient, cut, weights.size() - cut);
    }
  }

  void piece(const Rule& rule, int step, const std::vector<T>& gradient, std::size_t begin,
             std::size_t size) {
    std::vector<std::span<T>> spans;
    for (auto& slot : state) spans.push_back(std::span(slot).subspan(begin, size));
    update<T>(rule, step, std::span(weights).subspan(begin, size),
              std::span(gradient).subspan(begin, size), spans);
  }
};

template <typename T>
void expect_near(const std::vector<T>& got, const json& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i].get<double>(), tolerance) << what << " element " << i;
  }
}

// All values of the script are of the order of 1, so tolerances are absolute: five steps add a few
// roundings each. Where Adam divides by a square root near zero, an error of its average counts
// more.
template <typename T>
void expect_golden(double tolerance) {
  const json file = convoy::golden::read("optim.json");
  for (const json& golden : file["cases"]) {
    const std::string what = golden["rule"].get<std::string>() + golden["options"].dump();
    const Rule rule = rule_of(golden);
    EXPECT_EQ(name(rule), golden["rule"].get<std::string>());
    validate(rule);
    Training<T> run(rule, golden["count"]);
    run.steps(rule, golden["steps"]);
    expect_near(run.weights, golden["weights"], tolerance, what);
    const auto layout = slots(rule);
    ASSERT_EQ(layout.size(), golden["state"].size()) << what;
    for (std::size_t i = 0; i < layout.size(); ++i) {
      expect_near(run.state[i], golden["state"].at(std::string(layout[i].name)), tolerance, what);
    }
  }
}

TEST(Rules, DoublesAreTorchsWithinRounding) { expect_golden<double>(1e-14); }
TEST(Rules, FloatsAreTorchsWithinRounding) { expect_golden<float>(1e-5); }

TEST(Rules, BitsDoNotDependOnWhereTheArraysAreCut) {
  const json file = convoy::golden::read("optim.json");
  for (const json& golden : file["cases"]) {
    const Rule rule = rule_of(golden);
    Training<float> whole(rule, 101);
    whole.steps(rule, 3);
    for (const std::size_t cut : {1, 7, 50, 100}) {
      Training<float> pieces(rule, 101);
      pieces.steps(rule, 3, cut);
      EXPECT_EQ(pieces.weights, whole.weights) << golden["rule"] << " cut at " << cut;
      EXPECT_EQ(pieces.state, whole.state) << golden["rule"] << " cut at " << cut;
    }
  }
}

// With one rate the weights are Sgd's; when it changes, the velocity keeps what it has.
TEST(Rules, VelocityHoldsTheRate) {
  const std::size_t count = 37;
  Training<double> velocity(SgdVelocity{.momentum = 0.9}, count),
      buffer(Sgd{.momentum = 0.9}, count);
  std::vector<double> w = velocity.weights, v(count, 0.0);
  double furthest = 0;
  for (int step = 1; step <= 6; ++step) {
    const double rate = step <= 3 ? 0.1 : 0.02;
    const auto gradient = fill<double>("gradient " + std::to_string(step), count);
    const Rule rule = SgdVelocity{.lr = rate, .momentum = 0.9, .weight_decay = 0.01};
    velocity.piece(rule, step, gradient, 0, 11);
    velocity.piece(rule, step, gradient, 11, count - 11);
    buffer.piece(Sgd{.lr = rate, .momentum = 0.9, .weight_decay = 0.01}, step, gradient, 0, count);
    for (std::size_t i = 0; i < count; ++i) {
      v[i] = 0.9 * v[i] - rate * (gradient[i] + 0.01 * w[i]);
      w[i] += v[i];
      EXPECT_NEAR(velocity.weights[i], w[i], 1e-14);
      if (step <= 3) EXPECT_NEAR(velocity.weights[i], buffer.weights[i], 1e-14);
      furthest = std::max(furthest, std::abs(velocity.weights[i] - buffer.weights[i]));
    }
  }
  EXPECT_GT(furthest, 1e-3);
}

TEST(Rules, EmptyArraysAreFine) {
  Training<float> run(Adam{}, 0);
  run.steps(Adam{}, 2);
}

TEST(Rules, StateLayoutIsQueryable) {
  EXPECT_EQ(slots(Sgd{}).size(), 0u);
  const Slots momentum = slots(Sgd{.momentum = 0.9});
  ASSERT_EQ(momentum.size(), 1u);
  EXPECT_EQ(momentum[0], (Slot{"momentum_buffer", 0}));
  EXPECT_EQ(slots(SgdVelocity{})[0], (Slot{"velocity", 0}));
  EXPECT_EQ(slots(Adam{}).size(), 2u);
  EXPECT_EQ(slots(AdamW{.amsgrad = true})[2], (Slot{"max_exp_avg_sq", 0}));
  EXPECT_EQ(slots(Adagrad{.initial_accumulator_value = 0.5})[0], (Slot{"sum", 0.5}));
}

TEST(Rules, LearningRateChanges) {
  Rule rule = AdamW{.lr = 0.5};
  set_learning_rate(rule, 0.25);
  EXPECT_EQ(learning_rate(rule), 0.25);
  EXPECT_EQ(rule, Rule(AdamW{.lr = 0.25}));
}

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Rules, RefuseBadFieldsByName) {
  EXPECT_EQ(error_of([] { validate(Sgd{.lr = -1}); }), "sgd: lr is -1; it has to be 0 or more");
  EXPECT_NE(error_of([] { validate(Sgd{.lr = std::nan("")}); }), "");
  EXPECT_NE(error_of([] { validate(Sgd{.nesterov = true}); }).find("momentum"), std::string::npos);
  EXPECT_NE(error_of([] { validate(Adam{.beta2 = 1}); }).find("beta2 is 1"), std::string::npos);
  EXPECT_NE(error_of([] { validate(Adagrad{.lr_decay = -1}); }).find("lr_decay"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { validate(SgdVelocity{.momentum = -1}); }).find("sgd_velocity: momentum is -1"),
      std::string::npos);
}

TEST(Rules, RefuseArraysThatDoNotFit) {
  std::vector<float> weights(4), gradient(3), buffer(4), small(2);
  const std::span<float> one[] = {buffer};
  const std::span<float> bad[] = {small};
  const std::span<const float> full = buffer;
  const Rule rule = Sgd{.momentum = 0.9};
  EXPECT_EQ(error_of([&] { update<float>(rule, 1, weights, gradient, one); }),
            "sgd: the gradient has 3 elements; it has to have 4, as many as the weights");
  EXPECT_NE(error_of([&] { update<float>(rule, 1, weights, full, bad); }).find("momentum_buffer"),
            std::string::npos);
  EXPECT_NE(error_of([&] { update<float>(rule, 1, weights, full, {}); }), "");
  EXPECT_NE(error_of([&] { update<float>(rule, 0, weights, full, one); }).find("step is 0"),
            std::string::npos);
}

}  // namespace
