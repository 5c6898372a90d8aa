#include "convoy/optim/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "base/exact_sum.h"
#include "convoy/base/error.h"
#include "optim/line_search.h"
#include "tests/golden/read.h"
#include "tests/optim/problems.h"

namespace {

using namespace convoy::optim;
using convoy::ExactSum;
using convoy::UsageError;
using test::Loss;
using test::Problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Forwards to a space, and keeps a copy of every vector that was ever made.
template <typename T>
class Watched : public Space {
 public:
  explicit Watched(std::size_t size) : space(size) {}

  std::vector<double> dots(std::span<const VectorPair> pairs) override {
    ++messages;
    return space.dots(pairs);
  }
  void combine(const VectorName& into, std::span<const Term> terms) override {
    space.combine(into, terms);
    const std::vector<T>& now = space.get(into);
    const auto before = made.find(into);
    if (before != made.end() &&
        std::memcmp(before->second.data(), now.data(), now.size() * sizeof(T)) != 0)
      ADD_FAILURE() << to_string(into) << " is another vector than before";
    made[into] = now;
  }
  void multiply(const VectorName& into, const VectorName& a, const VectorName& b) override {
    space.multiply(into, a, b);
  }
  void keep(std::span<const VectorName> names) override {
    most = std::max(most, space.vectors());
    space.keep(names);
    if (!left) left = space.vectors();
    if (++keeps == throw_at_keep) throw convoy::Failure("some shards have freed them");
  }

  MemorySpace<T> space;
  int keeps = 0;
  int throw_at_keep = 0;
  std::optional<std::size_t> left;  // by the next keep()
  std::map<VectorName, std::vector<T>> made;
  int messages = 0;
  std::size_t most = 0;
};

template <typename T>
class Function : public Objective {
 public:
  Function(Watched<T>& vectors, std::function<Loss(const std::vector<double>&)> what)
      : vectors_(vectors), loss_(std::move(what)) {}

  double evaluate(const VectorName& weights) override {
    ++evaluations;
    if (evaluations == throw_at) throw convoy::Failure("a replica is lost");
    const auto& at = vectors_.space.get(weights);
    const Loss loss = loss_({at.begin(), at.end()});
    std::vector<T> gradient(loss.gradient.begin(), loss.gradient.end());
    vectors_.made[gradient_of(weights)] = gradient;
    vectors_.space.put(gradient_of(weights), std::move(gradient));
    return static_cast<T>(loss.value);
  }

  int evaluations = 0;
  int throw_at = 0;

 private:
  Watched<T>& vectors_;
  std::function<Loss(const std::vector<double>&)> loss_;
};

template <typename T = double>
struct Minimization {
  Minimization(const BatchOptions& options,
               const std::function<Loss(const std::vector<double>&)>& loss,
               const std::vector<double>& start)
      : vectors(start.size()), objective(vectors, loss), optimizer(options, vectors, objective) {
    vectors.space.put({}, {start.begin(), start.end()});
    vectors.made[{}] = vectors.space.get({});
  }

  BatchIteration finish(int most = 2000) {
    BatchIteration last = optimizer.begin();
    while (last.ending == BatchEnding::none && last.iteration < most) last = optimizer.iterate();
    return last;
  }
  const std::vector<T>& weights() const { return vectors.made.at(optimizer.state().weights); }

  Watched<T> vectors;
  Function<T> objective;
  BatchOptimizer optimizer;
};

Loss rosenbrock(const std::vector<double>& x) { return test::problems().front().loss(x); }

// A convex quadratic of 40 variables with curvatures from 1 to `condition`, turned by reflections.
std::function<Loss(const std::vector<double>&)> quadratic(double condition) {
  return [condition](const std::vector<double>& x) {
    const std::size_t n = x.size();
    double mean = 0;
    for (const double each : x) mean += each;
    mean *= 2.0 / static_cast<double>(n);
    Loss loss{0, std::vector<double>(n)};
    double back = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double turned = x[i] - mean - 1;
      const double curvature =
          std::pow(condition, static_cast<double>(i) / static_cast<double>(n - 1));
      loss.value += curvature * turned * turned / 2;
      loss.gradient[i] = curvature * turned;
      back += loss.gradient[i];
    }
    for (double& each : loss.gradient) each -= 2 * back / static_cast<double>(n);
    return loss;
  };
}

TEST(Problems, AreThoseOfAnIndependentImplementation) {
  const auto golden = convoy::golden::read("batch.json");
  const auto problems = test::problems();
  ASSERT_EQ(problems.size(), golden["problems"].size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto& row = golden["problems"][i];
    ASSERT_EQ(problems[i].name, row["name"].get<std::string>());
    const Loss loss = problems[i].loss(row["start"].get<std::vector<double>>());
    EXPECT_NEAR(loss.value, row["loss"], 1e-12 * std::abs(loss.value)) << problems[i].name;
    const std::vector<double> gradient = row["gradient"];
    double size = 0;
    for (const double each : gradient) size = std::max(size, std::abs(each));
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      EXPECT_NEAR(loss.gradient[j], gradient[j], 1e-11 * size) << problems[i].name << " " << j;
    }
  }
}

// SciPy ends at gradients whose largest element is 1e-5, ours at those no longer than that.
TEST(Lbfgs, SolvesTheClassicalProblemsInAsFewEvaluations) {
  const auto golden = convoy::golden::read("batch.json");
  std::vector<double> ratios;
  for (const auto& [row, problem] : [&] {
         std::vector<std::pair<nlohmann::json, Problem>> both;
         const auto problems = test::problems();
         for (std::size_t i = 0; i < problems.size(); ++i)
           both.emplace_back(golden["problems"][i], problems[i]);
         return both;
       }()) {
    Minimization run(BatchOptions{}, problem.loss, row["start"]);
    const BatchIteration end = run.finish();
    const double found = row["found"], evaluations = row["evaluations"];
    const double ratio = run.objective.evaluations / evaluations;
    ratios.push_back(ratio);
    std::printf("%-22s %4d evaluations (%3.0f), loss %.6g (%.6g), gradient %.2g, %s\n",
                problem.name.c_str(), run.objective.evaluations, evaluations, end.loss, found,
                end.gradient_norm, std::string(describe(end.ending)).c_str());
    const double allowed = 1e-6 * (1 + std::abs(end.loss));
    EXPECT_TRUE(std::abs(end.loss - problem.minimum) <= allowed ||
                std::abs(end.loss - problem.other_minimum) <= allowed)
        << problem.name << ": " << end.loss;
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = (ratios[ratios.size() / 2] + ratios[(ratios.size() - 1) / 2]) / 2;
  std::printf("median of evaluations, of SciPy's: %.3f\n", median);
  EXPECT_LE(median, 1.25);
}

// The two loops as Nocedal has them, on vectors.
std::vector<double> two_loops(const std::vector<std::vector<double>>& steps,
                              const std::vector<std::vector<double>>& changes,
                              std::vector<double> q) {
  const auto dot = [](const auto& a, const auto& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  std::vector<double> alphas(steps.size());
  for (std::size_t i = steps.size(); i-- > 0;) {
    alphas[i] = dot(steps[i], q) / dot(steps[i], changes[i]);
    for (std::size_t j = 0; j < q.size(); ++j) q[j] -= alphas[i] * changes[i][j];
  }
  const double scale =
      steps.empty() ? 1 : dot(steps.back(), changes.back()) / dot(changes.back(), changes.back());
  for (double& each : q) each *= scale;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double beta = dot(changes[i], q) / dot(steps[i], changes[i]);
    for (std::size_t j = 0; j < q.size(); ++j) q[j] += (alphas[i] - beta) * steps[i][j];
  }
  for (double& each : q) each = -each;
  return q;
}

// Scalar products of what is nearly parallel cancel: what is lost grows with the condition of the
// problem.
TEST(Lbfgs, HasTheDirectionsOfTheTwoLoopsOnVectors) {
  for (const auto& [loss, start, tolerance] :
       {std::tuple{std::function(rosenbrock), std::vector<double>{-1.2, 1}, 1e-6},
        std::tuple{quadratic(1e3), std::vector<double>(40, 3.0), 1e-9}}) {
    BatchOptions options;
    options.history = 5;
    Minimization run(options, loss, start);
    run.optimizer.begin();
    double worst = 0;
    for (int i = 0; i < 25; ++i) {
      const BatchState before = run.optimizer.state();
      std::vector<std::vector<double>> steps, changes;
      for (const auto iteration : before.history) {
        steps.push_back(run.vectors.made.at({VectorRole::step, iteration}));
        changes.push_back(run.vectors.made.at({VectorRole::change, iteration}));
      }
      const auto expected =
          two_loops(steps, changes, run.vectors.made.at(gradient_of(before.weights)));
      if (run.optimizer.iterate().ending != BatchEnding::none) break;
      const auto& direction = run.vectors.made.at({VectorRole::direction, before.iteration + 1});
      double difference = 0, size = 0;
      for (std::size_t j = 0; j < expected.size(); ++j) {
        difference += std::pow(direction[j] - expected[j], 2);
        size += std::pow(expected[j], 2);
      }
      worst = std::max(worst, std::sqrt(difference / size));
    }
    std::printf("largest difference of a direction: %.2g\n", worst);
    EXPECT_LE(worst, tolerance);
  }
}

TEST(Lbfgs, AsksTwiceInAnIterationOfOneEvaluation) {
  Minimization run(BatchOptions{}, quadratic(10), std::vector<double>(40, 3.0));
  run.optimizer.begin();
  for (int i = 0; i < 8; ++i) {
    const int before = run.vectors.messages;
    const BatchIteration done = run.optimizer.iterate();
    // A slope for each evaluation, and all new products at once.
    EXPECT_EQ(run.vectors.messages - before, done.evaluations + 1);
  }
}

TEST(Lbfgs, KeepsWhatItNeedsAndNothingElse) {
  BatchOptions options;
  options.history = 3;
  Minimization run(options, rosenbrock, {-1.2, 1});
  BatchIteration last = run.optimizer.begin();
  while (last.ending == BatchEnding::none) {
    const std::vector<VectorName> before = vectors_of(run.optimizer.state(), options.method);
    run.vectors.left.reset();
    last = run.optimizer.iterate();
    EXPECT_EQ(run.vectors.left, before.size()) << "what the iteration before has left is freed";
    // Who has not heard yet that it is done finds all that it began with.
    for (const VectorName& name : before) EXPECT_NO_THROW(run.vectors.space.get(name));
  }
  // Weights and gradients of the start, the best and the newest, a direction, 3 pairs and the
  // newest one.
  EXPECT_LE(run.vectors.most, 6U + 1 + 6 + 2);
}

// Each command has the result that it had before, so that whoever is asked again does not change
// anything.
TEST(Lbfgs, MakesAnInterruptedIterationAgainWithTheSameBits) {
  const std::vector<double> start = {-1.2, 1};
  Minimization whole(BatchOptions{}, rosenbrock, start);
  whole.finish();
  for (int at = 2; at <= whole.objective.evaluations; ++at) {
    Minimization run(BatchOptions{}, rosenbrock, start);
    run.objective.throw_at = at;
    BatchIteration last = run.optimizer.begin();
    int failures = 0;
    while (last.ending == BatchEnding::none) {
      const BatchState before = run.optimizer.state();
      try {
        last = run.optimizer.iterate();
      } catch (const convoy::Failure&) {
        ++failures;
        EXPECT_EQ(run.optimizer.state(), before);
      }
    }
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(run.optimizer.state(), whole.optimizer.state());
    EXPECT_EQ(run.weights(), whole.weights());
  }
}

TEST(Lbfgs, LosesNothingWhereVectorsAreNotFreedEverywhere) {
  const std::vector<double> start = {-1.2, 1};
  Minimization whole(BatchOptions{}, rosenbrock, start);
  whole.finish();
  ASSERT_GT(whole.vectors.keeps, 20);
  for (int at = 1; at <= whole.vectors.keeps; ++at) {
    Minimization run(BatchOptions{}, rosenbrock, start);
    run.vectors.throw_at_keep = at;
    BatchIteration last = run.optimizer.begin();
    while (last.ending == BatchEnding::none) {
      try {
        last = run.optimizer.iterate();
      } catch (const convoy::Failure&) {
      }
    }
    EXPECT_EQ(run.optimizer.state(), whole.optimizer.state()) << at;
    EXPECT_EQ(run.weights(), whole.weights()) << at;
  }
}

// A name has one vector, also where an iteration searches twice. (Watched sees to it.)
TEST(Lbfgs, SearchesAlongTheSteepestDescentWhereItsOwnDirectionFails) {
  const auto wrong_but_at_first = [](const std::vector<double>& x) {
    return Loss{x[0] * x[0], {x[0] == 1 ? 2.0 : -1.0}};
  };
  Minimization run(BatchOptions{}, wrong_but_at_first, {1});
  run.optimizer.begin();
  EXPECT_EQ(run.optimizer.iterate().ending, BatchEnding::none);
  EXPECT_EQ(run.optimizer.state().history.size(), 1U);
  const BatchIteration end = run.optimizer.iterate();
  EXPECT_EQ(end.ending, BatchEnding::no_step);
  EXPECT_TRUE(end.restarted);
  int directions = 0;
  for (const auto& [name, vector] : run.vectors.made)
    directions += name.role == VectorRole::direction && name.iteration == 2 ? 1 : 0;
  EXPECT_EQ(directions, 2);
  // The second search begins without what the first one has tried: docs/batch.md has the number.
  EXPECT_LE(run.vectors.most, 2U * 1 + 9);
  EXPECT_EQ(run.weights(), std::vector<double>{0});
}

TEST(BatchState, GoesOnWithAShorterHistory) {
  Minimization run(BatchOptions{}, rosenbrock, {-1.2, 1});
  run.optimizer.begin();
  while (run.optimizer.state().history.size() < 6) run.optimizer.iterate();
  BatchOptions options;
  options.history = 3;
  BatchOptimizer shorter(options, run.vectors, run.objective);
  shorter.resume(run.optimizer.state());
  shorter.iterate();
  EXPECT_EQ(shorter.state().history.size(), 3U);
}

TEST(BatchState, IsAllThatATrainingNeedsToGoOn) {
  for (const BatchMethod method :
       {BatchMethod::lbfgs, BatchMethod::conjugate_gradient, BatchMethod::gradient_descent}) {
    BatchOptions options;
    options.method = method;
    if (method != BatchMethod::lbfgs) options.line_search.curvature = 0.1;
    Minimization whole(options, rosenbrock, {-1.2, 1});
    Minimization first(options, rosenbrock, {-1.2, 1});
    whole.optimizer.begin();
    first.optimizer.begin();
    for (int i = 0; i < 7; ++i) first.optimizer.iterate();
    Minimization second(options, rosenbrock, {0, 0});
    second.vectors.space = MemorySpace<double>(2);
    for (const VectorName& name : vectors_of(first.optimizer.state(), method)) {
      second.vectors.space.put(name, first.vectors.space.get(name));
    }
    // Also as text.
    second.optimizer.resume(batch_state_of(lines_of(first.optimizer.state())));
    for (int i = 0; i < 12; ++i) whole.optimizer.iterate();
    for (int i = 0; i < 5; ++i) second.optimizer.iterate();
    EXPECT_EQ(second.optimizer.state(), whole.optimizer.state()) << name(method);
    EXPECT_EQ(second.weights(), whole.weights()) << name(method);
  }
}

TEST(BatchState, ComesBackFromTextWithTheSameBits) {
  BatchState state;
  state.iteration = 12;
  state.weights = {VectorRole::weights, 12, 1};
  state.loss = 0.1 + 0.2;
  state.evaluations = 15;
  state.history = {10, 12};
  state.products[{{VectorRole::step, 10}, {VectorRole::change, 12, 1}}] = -5e-324;
  state.direction = {VectorRole::direction, 12, 2};
  state.step = 1.0 / 3;
  state.slope = -1e300;
  state.stalled = 2;
  const std::vector<std::string> lines = lines_of(state);
  EXPECT_EQ(batch_state_of(lines), state);
  EXPECT_EQ(batch_state_of(lines_of(BatchState{})), BatchState{});
  EXPECT_EQ(lines[1], "weights weights 12.1");
  EXPECT_EQ(lines[4], "history 10 12");
  EXPECT_EQ(lines.back(), "product step 10.0 change 12.1 -5e-324");
  const auto refused = [](std::vector<std::string> wrong) -> std::string {
    try {
      batch_state_of(wrong);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    std::vector<std::string> fewer = lines, twice = lines, wrong = lines;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const std::string key = lines[i].substr(0, lines[i].find(' '));
    EXPECT_EQ(refused(fewer), "the state of a batch optimizer has no line '" + key + "'");
    twice.push_back(lines[i]);
    EXPECT_NE(refused(twice).find("is no line of it"), std::string::npos) << lines[i];
    wrong[i] += " x";
    EXPECT_NE(refused(wrong).find("'" + wrong[i] + "' is no line of it"), std::string::npos);
  }
  for (const char* line :
       {"", "speed 3", "product step 1.0 step 0.0 1", "product step 1.0 step 1.0",
        "product step 1 step 2.0 3", "product stride 1.0 step 2.0 3"}) {
    std::vector<std::string> wrong = lines;
    wrong.emplace_back(line);
    EXPECT_NE(refused(wrong), "") << line;
  }
  std::vector<std::string> negative = lines;
  negative[0] = "iteration -1";
  EXPECT_NE(refused(negative), "");
}

// Vectors in slices, as they lie on shards: scalar products are merged from exact sums.
class Sliced : public Watched<double> {
 public:
  Sliced(std::size_t size, std::size_t slices) : Watched(size), slices_(slices) {}

  std::vector<double> dots(std::span<const VectorPair> pairs) override {
    std::vector<double> results;
    for (const auto& [a, b] : pairs) {
      const auto& left = space.get(a);
      const auto& right = space.get(b);
      ExactSum sum;
      for (std::size_t slice = slices_; slice-- > 0;) {
        const std::size_t begin = left.size() * slice / slices_,
                          end = left.size() * (slice + 1) / slices_;
        ExactSum part;
        part.add_products(left.data() + begin, right.data() + begin, end - begin);
        sum.add(part);
      }
      results.push_back(sum.value());
    }
    return results;
  }

 private:
  std::size_t slices_;
};

TEST(Lbfgs, HasTheSameBitsHoweverVectorsAreCut) {
  const std::vector<double> start(40, 3.0);
  Minimization whole(BatchOptions{}, quadratic(1e4), start);
  whole.finish(40);
  for (const std::size_t slices : {1, 2, 5, 7}) {
    Sliced vectors(start.size(), slices);
    Function<double> objective(vectors, quadratic(1e4));
    BatchOptimizer optimizer(BatchOptions{}, vectors, objective);
    vectors.space.put({}, start);
    BatchIteration last = optimizer.begin();
    while (last.ending == BatchEnding::none && last.iteration < 40) last = optimizer.iterate();
    EXPECT_EQ(optimizer.state(), whole.optimizer.state());
    EXPECT_EQ(vectors.space.get(optimizer.state().weights), whole.weights());
  }
}

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

// Not the one with which the interval of the first stage ends: a loss that has fallen has fallen.
TEST(LineSearch, GivesUpAtTheLeastLoss) {
  LineSearchOptions options;
  options.decrease = 0.4;
  options.curvature = 0.5;
  options.evaluations = 3;
  LineSearch search(options, 0, -1, 1);
  EXPECT_EQ(search.tell(-0.1, 0.9), LineSearch::Verdict::go_on);
  for (const auto expected : {LineSearch::Verdict::go_on, LineSearch::Verdict::give_up}) {
    EXPECT_LT(search.step(), 1);
    EXPECT_EQ(search.best_step(), 1);
    EXPECT_EQ(search.tell(0.5, 0.9), expected);
  }
  EXPECT_EQ(search.best_step(), 1);
}

// Functions 1 and 2 of Moré and Thuente's paper, from first steps far too short and far too long.
TEST(LineSearch, FindsStepsThatSatisfyTheStrongWolfeConditions) {
  const auto one = [](double a) {
    return std::pair{-a / (a * a + 2), (a * a - 2) / std::pow(a * a + 2, 2)};
  };
  const auto two = [](double a) {
    const double b = a + 0.004;
    return std::pair{std::pow(b, 5) - 2 * std::pow(b, 4), 5 * std::pow(b, 4) - 8 * std::pow(b, 3)};
  };
  LineSearchOptions options;
  options.decrease = 1e-3;
  options.curvature = 0.1;
  options.evaluations = 40;
  for (const auto& function : {std::function<std::pair<double, double>(double)>(one), {two}}) {
    for (const double first : {1e-3, 1e-1, 1e1, 1e3}) {
      const auto [loss, slope] = function(0);
      LineSearch search(options, loss, slope, first);
      auto verdict = LineSearch::Verdict::go_on;
      double step = 0;
      while (verdict == LineSearch::Verdict::go_on) {
        step = search.step();
        const auto [there, steep] = function(step);
        verdict = search.tell(there, steep);
      }
      ASSERT_EQ(verdict, LineSearch::Verdict::accept) << first;
      const auto [there, steep] = function(step);
      EXPECT_LE(there, loss + options.decrease * step * slope);
      EXPECT_LE(std::abs(steep), -options.curvature * slope);
      EXPECT_LE(search.tried(), 12);
    }
  }
}

}  // namespace
