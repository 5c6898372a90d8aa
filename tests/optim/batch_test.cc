#include "convoy/optim/batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "tests/optim/batch_fixture.h"

namespace {

using namespace convoy::optim;
using convoy::UsageError;
using test::Loss;
using test::Minimization;
using test::quadratic;
using test::rosenbrock;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Batch, OtherMethodsFindTheMinimumToo) {
  for (const BatchMethod method :
       {BatchMethod::conjugate_gradient, BatchMethod::gradient_descent}) {
    BatchOptions options;
    options.method = method;
    options.line_search.curvature = 0.1;
    Minimization run(options, quadratic(20), std::vector<double>(40, 3.0));
    const BatchIteration end = run.finish();
    EXPECT_EQ(end.ending, BatchEnding::gradient) << name(method);
    EXPECT_LE(end.loss, 1e-9) << name(method);
    std::printf("%s: %ld iterations\n", std::string(name(method)).c_str(),
                static_cast<long>(end.iteration));
  }
}

// Conjugate directions end after as many iterations as there are different curvatures, but for
// rounding and a line search that is not exact.
TEST(Batch, ConjugateGradientsAreFasterThanTheSteepestDescent) {
  const auto iterations = [](BatchMethod method) {
    BatchOptions options;
    options.method = method;
    options.line_search.curvature = 0.1;
    return Minimization(options, quadratic(1000), std::vector<double>(40, 3.0))
        .finish(5000)
        .iteration;
  };
  EXPECT_LT(4 * iterations(BatchMethod::conjugate_gradient),
            iterations(BatchMethod::gradient_descent));
  EXPECT_LE(iterations(BatchMethod::lbfgs), 2 * iterations(BatchMethod::conjugate_gradient));
}

// Losses of floats near the minimum differ by rounding alone.
TEST(Batch, FloatsEndWhereTheirRoundingDoes) {
  BatchOptions options;
  options.line_search.loss_error = 1e-6;
  options.gradient_norm = 1e-4;
  const auto loss = [](const std::vector<double>& x) {
    Loss loss = quadratic(100)(x);
    loss.value += 1000;  // of which a float knows 6e-5
    return loss;
  };
  Minimization<float> run(options, loss, std::vector<double>(40, 3.0));
  const BatchIteration end = run.finish(200);
  // By losses alone nothing nearer than a gradient of 0.1 can be told from the minimum.
  EXPECT_LE(end.gradient_norm, 0.02);
  EXPECT_NEAR(end.loss, 1000, 1e-3);
}

TEST(Batch, DampedPairsStillLeadToTheMinimum) {
  BatchOptions options;
  options.damping = 0.2;
  Minimization run(options, rosenbrock, {-1.2, 1});
  EXPECT_LE(run.finish().loss, 1e-8);
}

TEST(Batch, WhatIsNotFiniteShortensTheStep) {
  // -log(x) + x is infinite at 0 and left of it.
  const auto barrier = [](const std::vector<double>& x) {
    if (x[0] <= 0) return Loss{x[0] < -1 ? std::nan("") : kInfinity, {std::nan("")}};
    return Loss{1e3 * (x[0] - std::log(x[0])), {1e3 * (1 - 1 / x[0])}};
  };
  for (const double start : {1e-3, 0.5, 900.0}) {
    Minimization run(BatchOptions{}, barrier, {start});
    const BatchIteration end = run.finish();
    EXPECT_NEAR(run.weights()[0], 1, 1e-6) << start;
    EXPECT_EQ(end.ending, BatchEnding::gradient) << start;
  }
}

// No step before it has a slope that is small enough: it is not looked for until no evaluation is
// left.
TEST(Batch, ComesNearToWhereALossIsNoneInAFewSteps) {
  for (const double wall : {0.3, 2.5, 30.0}) {
    const auto falls = [wall](const std::vector<double>& x) {
      return Loss{x[0] < wall ? -x[0] : std::nan(""), {-1}};
    };
    Minimization run(BatchOptions{}, falls, {0});
    run.optimizer.begin();
    const BatchIteration done = run.optimizer.iterate();
    EXPECT_EQ(done.ending, BatchEnding::none);
    EXPECT_LE(done.evaluations, 10) << wall;
    EXPECT_GE(run.weights()[0], 0.8 * wall);
  }
}

TEST(Batch, SaysWhereItCantBegin) {
  for (const double bad : {kInfinity, std::nan("")}) {
    Minimization loss(BatchOptions{}, [bad](const auto&) { return Loss{bad, {1}}; }, {1});
    EXPECT_EQ(loss.optimizer.begin().ending, BatchEnding::not_finite);
    Minimization gradient(BatchOptions{}, [bad](const auto&) { return Loss{1, {bad}}; }, {1});
    EXPECT_EQ(gradient.optimizer.begin().ending, BatchEnding::not_finite);
  }
  Minimization there(BatchOptions{}, quadratic(1), std::vector<double>(2, -1.0));
  const BatchIteration first = there.optimizer.begin();
  EXPECT_LE(first.gradient_norm, 1e-5) << first.gradient_norm;
  EXPECT_EQ(first.ending, BatchEnding::gradient);
}

// A gradient that points the wrong way leaves no step; the weights stay.
TEST(Batch, EndsWhereNoStepLowersTheLoss) {
  const auto wrong = [](const std::vector<double>& x) { return Loss{x[0] * x[0], {-2 * x[0]}}; };
  BatchOptions options;
  options.line_search.loss_error = 0;
  Minimization run(options, wrong, {1});
  const BatchIteration end = run.finish();
  EXPECT_EQ(end.ending, BatchEnding::no_step);
  EXPECT_EQ(end.loss, 1);
  EXPECT_EQ(run.weights(), std::vector<double>{1});
}

TEST(Batch, EndsWhereTheLossFallsNoMore) {
  BatchOptions options;
  options.progress = 1e-6;
  options.gradient_norm = 0;
  const auto above_one = [](const std::vector<double>& x) {
    Loss loss = quadratic(1000)(x);
    loss.value += 1;
    return loss;
  };
  Minimization run(options, above_one, std::vector<double>(40, 3.0));
  EXPECT_EQ(run.finish().ending, BatchEnding::progress);
}

TEST(Batch, OptionsThatMakeNoSenseAreNamed) {
  const auto refused = [](auto change, const std::string& text) {
    BatchOptions options;
    change(options);
    try {
      validate(options);
      ADD_FAILURE() << text << " is not refused";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  const double nan = std::nan("");
  refused([](BatchOptions& o) { o.history = 0; }, "history");
  refused([](BatchOptions& o) { o.line_search.decrease = 0.5; }, "line_search.decrease");
  refused([](BatchOptions& o) { o.line_search.curvature = 1; }, "line_search.curvature");
  refused([](BatchOptions& o) { o.line_search.curvature = 1e-5; }, "line_search.curvature");
  refused([](BatchOptions& o) { o.line_search.evaluations = 0; }, "line_search.evaluations");
  refused([=](BatchOptions& o) { o.line_search.loss_error = nan; }, "line_search.loss_error");
  refused([=](BatchOptions& o) { o.gradient_norm = nan; }, "gradient_norm");
  refused([](BatchOptions& o) { o.progress = -1; }, "progress");
  refused([](BatchOptions& o) { o.damping = 1; }, "damping");
}

}  // namespace
