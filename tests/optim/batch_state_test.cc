// What a batch optimization goes on from.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/optim/batch.h"
#include "tests/optim/batch_fixture.h"

namespace {

using namespace convoy::optim;
using convoy::UsageError;
using test::Minimization;
using test::rosenbrock;

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

// Steepest descent in between keeps no history, and L-BFGS behind it begins one anew.
TEST(BatchState, GoesOnWithAnotherMethodAndBack) {
  BatchState state;
  std::map<VectorName, std::vector<double>> vectors;
  for (const BatchMethod method :
       {BatchMethod::lbfgs, BatchMethod::gradient_descent, BatchMethod::lbfgs}) {
    BatchOptions options;
    options.method = method;
    Minimization run(options, rosenbrock, {-1.2, 1});
    if (state.iteration == 0) {
      run.optimizer.begin();
    } else {
      run.vectors.space = MemorySpace<double>(2);
      for (const VectorName& name : vectors_of(state, method))
        run.vectors.space.put(name, vectors.at(name));
      run.optimizer.resume(state);
    }
    const double loss = run.optimizer.state().loss;
    for (int i = 0; i < 4; ++i) run.optimizer.iterate();
    const std::size_t needed = vectors_of(run.optimizer.state(), method).size();
    run.vectors.left.reset();
    run.optimizer.iterate();
    EXPECT_EQ(run.vectors.left, needed);
    EXPECT_LT(run.optimizer.state().loss, loss);
    state = run.optimizer.state();
    EXPECT_EQ(state.history.empty(), method == BatchMethod::gradient_descent);
    for (const VectorName& name : vectors_of(state, method))
      vectors[name] = run.vectors.space.get(name);
  }
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

}  // namespace
