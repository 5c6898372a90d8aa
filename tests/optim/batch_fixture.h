// Minimizations of functions of a few variables, that keep every vector that was ever made.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/optim/batch.h"
#include "tests/optim/problems.h"

namespace convoy::optim::test {

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
    if (++keeps == throw_at_keep) throw Failure("some shards have freed them");
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
    if (evaluations == throw_at) throw Failure("a replica is lost");
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

inline Loss rosenbrock(const std::vector<double>& x) { return problems().front().loss(x); }

// A convex quadratic of 40 variables with curvatures from 1 to `condition`, turned by reflections.
inline std::function<Loss(const std::vector<double>&)> quadratic(double condition) {
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

}  // namespace convoy::optim::test
