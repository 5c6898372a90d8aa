// Batch optimizers: an iteration looks at the whole objective, searches along a direction, and
// moves the weights once. L-BFGS as Sandblaster has it (Dean et al. 2012, section 4.2), with its
// vectors in a Space and its decisions here, by scalars alone. Free of Torch, MPI and threads.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/optim/space.h"

namespace convoy::optim {

// What is minimized. An evaluation that is repeated has to give the same loss and gradient.
class Objective {
 public:
  virtual ~Objective() = default;
  // The loss at `weights`, a vector of the space; makes the vector gradient_of(weights). A loss
  // that is not finite, or a gradient, rejects the step; with such a loss there need be no
  // gradient.
  virtual double evaluate(const VectorName& weights) = 0;
};

VectorName gradient_of(const VectorName& weights);

enum class BatchMethod : std::uint8_t {
  lbfgs,  // Nocedal 1980, in the form that needs only scalar products (Chen, Wang and Zhou 2014)
  conjugate_gradient,  // Polak and Ribiere's, begun anew where it falls below 0 or gradients are no
                       // longer orthogonal
  gradient_descent
};

// "lbfgs", "conjugate_gradient", "gradient_descent".
std::string_view name(BatchMethod method);

struct LineSearchOptions {
  double decrease = 1e-4;  // of the strong Wolfe conditions: 0 < decrease < 1/2
  double curvature = 0.9;  // decrease < curvature < 1
  double loss_error =
      1e-14;  // relative: losses that differ by less are taken for equal; 1e-6 for losses in float
  int evaluations = 20;   // of one search at most
  double longest = 1e20;  // steps are at most so long
};

inline constexpr int kMostHistory = 1000;

struct BatchOptions {
  BatchMethod method = BatchMethod::lbfgs;
  int history = 10;  // pairs of steps and changes of the gradient that L-BFGS keeps
  LineSearchOptions line_search;
  // A pair whose step . change is no more than this part of |step| |change| tells nothing of the
  // curvature, and is left out.
  double least_curvature = 1e-12;
  // Powell 1978: of a pair with less curvature than this part of what the last one had, the change
  // is moved towards a multiple of the step until it has as much. 0: never.
  double damping = 0;
  double gradient_norm = 1e-5;  // training ends at a gradient no longer than this (Euclidean)
  // Or where so many iterations, one after the other, each lower the loss by no more than this part
  // of it. Near the minimum rounding lets a loss stand still while the gradient still gets shorter.
  double progress = 0;
  int patience = 3;
};

// Throws UsageError naming the option, its value and what would be right.
void validate(const BatchOptions& options);

// All that an iteration begins with, but for the vectors that it names: what a checkpoint has to
// have.
struct BatchState {
  std::int64_t iteration = 0;  // iterations done
  VectorName weights;
  double loss = 0;
  std::int64_t evaluations = 0;       // in all
  std::vector<std::int64_t> history;  // iterations whose step and change there are, oldest first
  std::map<VectorPair, double>
      products;  // scalar products that are known, each under the smaller name first
  VectorName direction = {VectorRole::direction};  // of the last iteration
  double step = 0;                                 // times that
  double slope = 0;                                // along it, where the iteration began
  int stalled = 0;  // so many iterations before this have hardly lowered the loss
  bool operator==(const BatchState&) const = default;
};

// What the space has to keep for that.
std::vector<VectorName> vectors_of(const BatchState& state, BatchMethod method);

// The most vectors that there are at once, from one call of keep() to the next, and the most that a
// state names: who fetches the vectors of a state holds so many more.
struct BatchVectors {
  int all = 0;
  int state = 0;
};
BatchVectors most_vectors(const BatchOptions& options);

// The state as text, without its vectors: a line each of "iteration", "weights", "loss",
// "evaluations", "history", "direction", "step", "slope", "stalled", and of each "product" that is
// known. Numbers come back with the same bits.
std::vector<std::string> lines_of(const BatchState& state);
// Throws UsageError naming the line that lines_of() can't have made, or what is missing.
BatchState batch_state_of(std::span<const std::string> lines);

enum class BatchEnding : std::uint8_t {
  none,       // there is more to do
  gradient,   // the gradient is as small as was asked
  progress,   // the loss falls no more
  no_step,    // no step along the steepest descent lowers the loss
  not_finite  // the loss or the gradient at the very first weights is not finite
};

// "the gradient is small enough", ...
std::string_view describe(BatchEnding ending);

struct BatchIteration {
  std::int64_t iteration = 0;  // from 1; 0 is the first evaluation
  double loss = 0;
  double gradient_norm = 0;
  double step = 0;      // times the direction
  int evaluations = 0;  // of this iteration
  bool restarted =
      false;  // the direction was the steepest descent, since the method's own gave no step
  BatchEnding ending = BatchEnding::none;
};

// One thread at a time. Exceptions of space and objective pass through: the state is then that of
// the iteration's start, and iterate() makes the same iteration again. What an iteration no longer
// needs is freed by the next one, when that begins: until then both states have their vectors.
class BatchOptimizer {
 public:
  BatchOptimizer(const BatchOptions& options, Space& space, Objective& objective);

  // Evaluates at `weights`, which the space has, of iteration 0 and evaluation 0.
  BatchIteration begin();
  // Goes on from a state of which the space has what vectors_of() names for this method.
  void resume(BatchState state);
  // After begin() or resume(), until something has an ending.
  BatchIteration iterate();

  const BatchState& state() const { return state_; }

 private:
  struct Direction {
    std::vector<Term> terms;
    double slope = 0;
    double length = 0;
  };
  struct Step {
    VectorName weights = {};
    VectorName direction = {};
    double loss = 0;
    double step = 0;
    int evaluations = 0;
    bool found = false;
  };

  double product(const VectorName& a, const VectorName& b) const;
  void learn(std::vector<VectorPair> pairs);
  Direction direction() const;
  Direction steepest() const;
  Direction lbfgs() const;
  Direction conjugate() const;
  double first_step(const Direction& direction, bool own) const;
  Step search(const Direction& direction, double first_step, int evaluations_before);
  void take(const Direction& direction, const Step& step);
  void keep_for_search(const VectorName& along, const std::map<double, Step>& tried, double best);
  void make_change(std::int64_t iteration, std::span<const Term> difference);
  bool tells_of_curvature(std::int64_t iteration) const;

  const BatchOptions options_;
  Space& space_;
  Objective& objective_;
  BatchState state_;
};

}  // namespace convoy::optim
