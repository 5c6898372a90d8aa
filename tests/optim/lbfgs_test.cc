// L-BFGS against other implementations, and after interruptions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/exact_sum.h"
#include "convoy/base/error.h"
#include "convoy/optim/batch.h"
#include "tests/golden/read.h"
#include "tests/optim/batch_fixture.h"
#include "tests/optim/problems.h"

namespace {

using namespace convoy::optim;
using convoy::ExactSum;
using test::Function;
using test::Loss;
using test::Minimization;
using test::Problem;
using test::quadratic;
using test::rosenbrock;
using test::Watched;

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

}  // namespace
