// Rules that go by norms of whole parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/optim/rule.h"
#include "tests/golden/fill.h"
#include "tests/golden/read.h"

namespace {

using namespace convoy::optim;
using convoy::UsageError;
using convoy::golden::fill;
using nlohmann::json;

Rule layerwise_rule_of(const json& golden) {
  const json& o = golden["options"];
  const auto take = [&](const char* key, double& value) { value = o.value(key, value); };
  if (golden["rule"] == "lamb") {
    Lamb rule;
    take("lr", rule.lr), take("beta1", rule.beta1), take("beta2", rule.beta2);
    take("eps", rule.eps), take("weight_decay", rule.weight_decay);
    return rule;
  }
  Lars rule;
  take("lr", rule.lr), take("momentum", rule.momentum), take("weight_decay", rule.weight_decay);
  take("trust_coefficient", rule.trust_coefficient), take("eps", rule.eps);
  return rule;
}

// A parameter, cut into pieces before these elements.
template <typename T>
struct Pieces {
  std::vector<std::size_t> cuts;
  std::vector<T> weights;
  std::vector<std::vector<T>> state;
  std::vector<double> ratios;

  Pieces(const Rule& rule, std::size_t count, std::vector<std::size_t> cuts_before = {})
      : cuts(std::move(cuts_before)), weights(fill<T>("weights", count)) {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(count);
    for (const Slot& slot : slots(rule)) state.emplace_back(count, static_cast<T>(slot.initial));
  }

  // use(weights, gradient, state) for each of them.
  void for_each(const std::vector<T>& gradient, const auto& use) {
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::size_t begin = cuts[i], size = cuts[i + 1] - cuts[i];
      std::vector<std::span<T>> spans;
      for (auto& slot : state) spans.push_back(std::span(slot).subspan(begin, size));
      use(std::span(weights).subspan(begin, size), std::span(gradient).subspan(begin, size), spans);
    }
  }

  void steps(const Rule& rule, int first, int last) {
    for (int step = first; step <= last; ++step) {
      const auto gradient = fill<T>("gradient " + std::to_string(step), weights.size());
      Squares squares;
      for_each(gradient, [&](std::span<T> w, std::span<const T> g, const auto& slots) {
        squares += accumulate<T>(rule, step, w, g, slots);
      });
      ratios.push_back(trust_ratio(rule, squares));
      for_each(gradient, [&](std::span<T> w, std::span<const T> g, const auto& slots) {
        apply<T>(rule, step, ratios.back(), w, g, slots);
      });
    }
  }
};

template <typename T>
void expect_close(const std::vector<T>& got, const json& wanted, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i].get<double>(), tolerance) << what << " element " << i;
}

// Values are of the order of 1, so tolerances are absolute.
template <typename T>
void expect_the_papers(double tolerance) {
  const json file = convoy::golden::read("layerwise.json");
  for (const json& golden : file["cases"]) {
    const std::string what = golden["rule"].get<std::string>() + golden["options"].dump();
    const Rule rule = layerwise_rule_of(golden);
    EXPECT_EQ(name(rule), golden["rule"].get<std::string>());
    EXPECT_TRUE(is_layerwise(rule));
    validate(rule);
    Pieces<T> run(rule, golden["count"], {5, 5, 30});
    run.steps(rule, 1, golden["steps"]);
    expect_close(run.weights, golden["weights"], tolerance, what);
    expect_close(run.ratios, golden["ratios"], tolerance, what);
    const Slots layout = slots(rule);
    ASSERT_EQ(layout.size(), golden["state"].size()) << what;
    for (std::size_t i = 0; i < layout.size(); ++i)
      expect_close(run.state[i], golden["state"].at(std::string(layout[i].name)), tolerance, what);
  }
}

TEST(Layerwise, DoublesAreThePapersWithinRounding) { expect_the_papers<double>(1e-14); }
TEST(Layerwise, FloatsAreThePapersWithinRounding) { expect_the_papers<float>(1e-5); }

// More than a block of the loops, and no multiple of one.
constexpr std::size_t kLong = 5000;

TEST(Layerwise, PiecesAreTheWhole) {
  for (const json& golden : convoy::golden::read("layerwise.json")["cases"]) {
    const Rule rule = layerwise_rule_of(golden);
    Pieces<double> whole(rule, kLong);
    whole.steps(rule, 1, 4);
    for (const std::vector<std::size_t>& cuts :
         {std::vector<std::size_t>{1}, {1666, 3333}, {7, 8, 1032, 4999}}) {
      Pieces<double> pieces(rule, kLong, cuts);
      pieces.steps(rule, 1, 4);
      for (std::size_t i = 0; i < kLong; ++i)
        EXPECT_NEAR(pieces.weights[i], whole.weights[i], 1e-14) << golden["rule"];
      for (std::size_t step = 0; step < 4; ++step)
        EXPECT_NEAR(pieces.ratios[step], whole.ratios[step], 1e-13 * whole.ratios[step]);
    }
  }
}

// As floats the weights have the same bits, as long as the ratio rounds to the same float.
TEST(Layerwise, UpdateIsOfAWholeParameter) {
  for (const json& golden : convoy::golden::read("layerwise.json")["cases"]) {
    const Rule rule = layerwise_rule_of(golden);
    Pieces<float> three_phases(rule, kLong), one_call(rule, kLong);
    three_phases.steps(rule, 1, 3);
    for (int step = 1; step <= 3; ++step) {
      one_call.for_each(fill<float>("gradient " + std::to_string(step), kLong),
                        [&](std::span<float> w, std::span<const float> g, const auto& slots) {
                          update<float>(rule, step, w, g, slots);
                        });
    }
    EXPECT_EQ(one_call.weights, three_phases.weights);
    EXPECT_EQ(one_call.state, three_phases.state);
  }
}

// What was read back from a checkpoint may be cut in other places.
TEST(Layerwise, GoesOnFromItsState) {
  for (const json& golden : convoy::golden::read("layerwise.json")["cases"]) {
    const Rule rule = layerwise_rule_of(golden);
    Pieces<double> whole(rule, kLong, {100, 2000}), before(rule, kLong, {100, 2000}),
        elsewhere(rule, kLong, {3000});
    whole.steps(rule, 1, 6);
    before.steps(rule, 1, 3);
    elsewhere.weights = before.weights;
    elsewhere.state = before.state;
    elsewhere.steps(rule, 4, 6);
    before.steps(rule, 4, 6);
    EXPECT_EQ(before.weights, whole.weights) << golden["rule"];
    for (std::size_t i = 0; i < kLong; ++i)
      EXPECT_NEAR(elsewhere.weights[i], whole.weights[i], 1e-14) << golden["rule"];
  }
}

TEST(Layerwise, RatioOfZeroNorms) {
  const Rule lars = Lars{.weight_decay = 0.5, .trust_coefficient = 0.1, .eps = 2}, lamb = Lamb{};
  EXPECT_EQ(trust_ratio(lars, {4, 9}), 0.1 * 2 / (3 + 0.5 * 2 + 2));
  EXPECT_EQ(trust_ratio(lamb, {4, 16}), 0.5);
  for (const Rule& rule : {lars, lamb, Rule(Lars{})}) {
    EXPECT_EQ(trust_ratio(rule, {0, 9}), 1);
    EXPECT_EQ(trust_ratio(rule, {4, 0}), 1);
    EXPECT_EQ(trust_ratio(rule, {}), 1);
  }
}

// Of a task that is learned gradients vanish, and most of their elements are zeros before all are:
// with a rate that no float holds these would leave no number of a weight.
TEST(Layerwise, VanishingGradientsLeaveNumbers) {
  for (const Rule& rule : {Rule(Lars{.lr = 10}), Rule(Lamb{.lr = 10})}) {
    for (const float g : {1e-45f, 1e-42f, 1e-38f, 1e-31f, 1e-28f}) {
      Pieces<float> run(rule, 10);
      std::vector<float> gradient(10, 0.0f);
      gradient[4] = g;
      const std::span<float> weights(run.weights);
      std::vector<std::span<float>> state(run.state.begin(), run.state.end());
      update<float>(rule, 1, weights, gradient, state);
      for (const float w : run.weights) EXPECT_TRUE(std::isfinite(w)) << name(rule) << " " << g;
    }
  }
}

// Such as the last layer of a network often begins with, and biases.
TEST(Layerwise, AParameterOfZerosLeavesThem) {
  for (const Rule& rule : {Rule(Lars{.lr = 0.5, .momentum = 0.9}), Rule(Lamb{.lr = 0.5})}) {
    Pieces<float> run(rule, 10, {3});
    run.weights.assign(10, 0);
    run.steps(rule, 1, 2);
    EXPECT_EQ(run.ratios[0], 1);
    EXPECT_NE(run.ratios[1], 1);
    for (const float w : run.weights) EXPECT_NE(w, 0);
  }
}

// Of which a weight decay of 0 leaves nothing to divide by.
TEST(Layerwise, NoGradientChangesNothing) {
  for (const Rule& rule : {Rule(Lars{.lr = 0.5}), Rule(Lamb{.lr = 0.5})}) {
    Pieces<float> run(rule, 10);
    const std::vector<float> before = run.weights;
    run.for_each(std::vector<float>(10, 0.0f), [&](std::span<float> w, auto g, const auto& slots) {
      update<float>(rule, 1, w, g, slots);
    });
    EXPECT_EQ(run.weights, before);
  }
}

// Squares of these are beyond what a float can hold.
TEST(Layerwise, SquaresAreTakenInDouble) {
  const Rule rule = Lars{};
  std::vector<float> weights(1000, 1e25f), gradient(1000, 1e-25f), velocity(1000);
  const std::span<float> state[] = {velocity};
  const Squares squares = accumulate<float>(rule, 1, weights, gradient, state);
  EXPECT_NEAR(squares.weights / 1e53, 1, 1e-6);
  EXPECT_NEAR(squares.direction / 1e-47, 1, 1e-6);
}

// A rule without its ratio: what biases are updated by.
TEST(Layerwise, WithoutTheRatio) {
  const std::size_t count = 37;
  Pieces<double> lars(Lars{}, count), velocity(SgdVelocity{}, count), lamb(Lamb{}, count),
      adamw(AdamW{}, count);
  for (int step = 1; step <= 4; ++step) {
    const auto gradient = fill<double>("gradient " + std::to_string(step), count);
    const auto step_of = [&](Pieces<double>& pieces, const Rule& rule) {
      pieces.for_each(gradient, [&](std::span<double> w, std::span<const double> g, auto& slots) {
        accumulate<double>(rule, step, w, g, slots);
        apply<double>(rule, step, 1, w, g, slots);
      });
    };
    step_of(lars, Lars{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    step_of(velocity, SgdVelocity{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    step_of(lamb, Lamb{.lr = 0.1, .eps = 1e-3, .weight_decay = 0.1});
    step_of(adamw, AdamW{.lr = 0.1, .eps = 1e-3, .weight_decay = 0.1});
  }
  EXPECT_EQ(lars.weights, velocity.weights);
  EXPECT_EQ(lars.state, velocity.state);
  EXPECT_EQ(lamb.state, adamw.state);
  for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(lamb.weights[i], adamw.weights[i], 1e-14);
}

TEST(Layerwise, OtherRulesHaveNoFirstPhase) {
  const Rule rule = Adam{.lr = 0.1};
  EXPECT_FALSE(is_layerwise(rule));
  Pieces<float> a(rule, 10), b(rule, 10);
  const auto gradient = fill<float>("gradient 1", 10);
  a.for_each(gradient, [&](std::span<float> w, std::span<const float> g, const auto& slots) {
    EXPECT_EQ(accumulate<float>(rule, 1, w, g, slots), Squares{});
    EXPECT_EQ(trust_ratio(rule, {4, 16}), 1);
    apply<float>(rule, 1, 1, w, g, slots);
  });
  b.for_each(gradient, [&](std::span<float> w, std::span<const float> g, const auto& slots) {
    update<float>(rule, 1, w, g, slots);
  });
  EXPECT_EQ(a.weights, b.weights);
}

std::string refusal_of(const auto& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Layerwise, RefusesWhatMakesNoSense) {
  EXPECT_EQ(refusal_of([] { validate(Lars{.trust_coefficient = -1}); }),
            "lars: trust_coefficient is -1; it has to be 0 or more");
  EXPECT_NE(refusal_of([] { validate(Lars{.momentum = std::nan("")}); }), "");
  EXPECT_NE(refusal_of([] { validate(Lars{.eps = -1}); }).find("lars: eps"), std::string::npos);
  EXPECT_NE(refusal_of([] { validate(Lamb{.beta1 = 1}); }).find("lamb: beta1"), std::string::npos);
  std::vector<float> weights(4), gradient(3), state(4);
  const std::span<float> one[] = {state};
  EXPECT_EQ(refusal_of([&] { accumulate<float>(Lars{}, 1, weights, gradient, one); }),
            "lars: the gradient has 3 elements; it has to have 4, as many as the weights");
  EXPECT_NE(refusal_of([&] {
              apply<float>(Lamb{}, 1, 1, weights, weights, one);
            }).find("1 slots of state were given; it keeps 2"),
            std::string::npos);
}

}  // namespace
