// How many vectors shards have, of what a batch optimizer says that there are at most.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "convoy/optim/batch.h"
#include "tests/server/state/batch_shards.h"

namespace convoy::server {
namespace {

using namespace test;

constexpr std::size_t kVariables = 30;

// Shards as a method sees them, which keep what `held` names, too.
class CountedShards final : public optim::Space {
 public:
  CountedShards() : shards(2, kVariables) {}

  std::vector<double> dots(std::span<const optim::VectorPair> pairs) override {
    std::vector<double> values;
    for (const auto& [a, b] : pairs) values.push_back(shards.dot(a, b));
    return values;
  }
  void combine(const VectorName& into, std::span<const optim::Term> terms) override {
    EXPECT_EQ(shards.all(combine_command(++commands_, into, terms)).status, Status::done);
    count();
  }
  void multiply(const VectorName& into, const VectorName& a, const VectorName& b) override {
    EXPECT_EQ(shards.all(multiply_command(++commands_, into, a, b)).status, Status::done);
    count();
  }
  void keep(std::span<const VectorName> names) override {
    std::set<VectorName> all(names.begin(), names.end());
    all.insert(held.begin(), held.end());
    const std::vector<VectorName> kept(all.begin(), all.end());
    EXPECT_EQ(shards.all(keep_command(++commands_, kept)).status, Status::done);
  }
  void put(const VectorName& name, const std::vector<double>& values) {
    shards.put(name, values);
    count();
  }

  BatchShards<double> shards;
  std::vector<VectorName> held;
  std::size_t most = 0;

 private:
  void count() {
    std::uint64_t bytes = 0;
    for (const ShardState& state : shards.states) bytes += state.batch().bytes;
    most = std::max<std::size_t>(most, bytes / (kVariables * sizeof(double)));
  }
  std::uint64_t commands_ = 0;
};

// Curvatures from 1 to 1000, and a fourth power, so that there is something to do for a while.
class Valley final : public optim::Objective {
 public:
  explicit Valley(CountedShards& space) : space_(space) {}

  double evaluate(const VectorName& weights) override {
    const std::vector<double> x = space_.shards.get(weights);
    std::vector<double> gradient(x.size());
    double loss = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double away = x[i] - 1;
      const double curvature = std::pow(1000, static_cast<double>(i) / (kVariables - 1));
      loss += curvature * away * away / 2 + away * away * away * away;
      gradient[i] = curvature * away + 4 * away * away * away;
    }
    space_.put(optim::gradient_of(weights), gradient);
    return loss;
  }

 private:
  CountedShards& space_;
};

// The most that there were in so many iterations; `hold`: while somebody fetched an early state.
std::size_t most_on_shards(const optim::BatchOptions& options, bool hold) {
  CountedShards space;
  Valley valley(space);
  std::vector<double> start(kVariables);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = 3 + 0.1 * static_cast<double>(i % 7);
  space.put({}, start);
  optim::BatchOptimizer optimizer(options, space, valley);
  optim::BatchIteration last = optimizer.begin();
  while (last.ending == optim::BatchEnding::none && last.iteration < 20) {
    last = optimizer.iterate();
    if (hold && last.iteration == 6)
      space.held = optim::vectors_of(optimizer.state(), options.method);
  }
  EXPECT_GE(last.iteration, 15) << optim::describe(last.ending);
  return space.most;
}

TEST(BatchMemory, ShardsHaveNoMoreThanIsSaidBeforehand) {
  using optim::BatchMethod;
  for (const auto method :
       {BatchMethod::lbfgs, BatchMethod::conjugate_gradient, BatchMethod::gradient_descent}) {
    for (const double damping : {0.0, 0.5}) {
      SCOPED_TRACE(std::string(name(method)) + ", damping " + std::to_string(damping));
      optim::BatchOptions options;
      options.method = method;
      options.history = 4;
      options.damping = damping;
      options.gradient_norm = 1e-12;
      const optim::BatchVectors said = optim::most_vectors(options);
      const auto all = static_cast<std::size_t>(said.all);
      const auto state = static_cast<std::size_t>(said.state);
      EXPECT_LE(most_on_shards(options, false), all);
      const std::size_t most = most_on_shards(options, true);
      EXPECT_LE(most, all + state);
      // Nor is it said to be far more than that.
      EXPECT_GE(most + 3, all + state);
      if (method == BatchMethod::lbfgs) {
        EXPECT_GT(most, all) << "what is held counts";
      }
    }
  }
}

}  // namespace
}  // namespace convoy::server
