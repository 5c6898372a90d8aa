#include "convoy/optim/batch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "convoy/base/error.h"
#include "optim/line_search.h"

namespace convoy::optim {
namespace {

// Powell 1977: gradients that are no longer orthogonal to each other end a sequence of conjugate
// directions.
constexpr double kNotOrthogonal = 0.2;
// A direction nearer to the gradient's normal than this is none of descent, but of rounding.
constexpr double kLeastDescent = 1e-10;

VectorName step_of(std::int64_t iteration) { return {VectorRole::step, iteration}; }
VectorName change_of(std::int64_t iteration) { return {VectorRole::change, iteration}; }
// An iteration may search along two, after so many evaluations.
VectorName direction_of(std::int64_t iteration, int evaluations) {
  return {VectorRole::direction, iteration, evaluations};
}

VectorPair in_order(const VectorName& a, const VectorName& b) {
  return a < b ? VectorPair{a, b} : VectorPair{b, a};
}

void require(bool right, std::string_view option, double value, std::string_view wanted) {
  if (right) return;
  throw UsageError("batch optimizer: " + std::string(option) + " = " + std::to_string(value) +
                   " is not " + std::string(wanted));
}

}  // namespace

VectorName gradient_of(const VectorName& weights) {
  return {VectorRole::gradient, weights.iteration, weights.evaluation};
}

std::string_view name(BatchMethod method) {
  static constexpr std::array kNames = {"lbfgs", "conjugate_gradient", "gradient_descent"};
  return kNames[static_cast<std::size_t>(method)];
}

std::string_view describe(BatchEnding ending) {
  static constexpr std::array kSentences = {
      "there is more to do", "the gradient is small enough", "the loss falls no more",
      "no step along the gradient lowers the loss", "the first loss or gradient is not finite"};
  return kSentences[static_cast<std::size_t>(ending)];
}

void validate(const BatchOptions& options) {
  const LineSearchOptions& search = options.line_search;
  require(options.history >= 1 && options.history <= kMostHistory, "history", options.history,
          "a number from 1 to " + std::to_string(kMostHistory));
  require(search.decrease > 0 && search.decrease < 0.5, "line_search.decrease", search.decrease,
          "between 0 and 0.5");
  require(search.curvature > search.decrease && search.curvature < 1, "line_search.curvature",
          search.curvature, "between line_search.decrease and 1");
  require(search.loss_error >= 0 && search.loss_error < 1, "line_search.loss_error",
          search.loss_error, "at least 0 and below 1");
  require(search.evaluations >= 1, "line_search.evaluations", search.evaluations, "at least 1");
  require(search.longest > 0, "line_search.longest", search.longest, "above 0");
  require(options.least_curvature >= 0 && options.least_curvature < 1, "least_curvature",
          options.least_curvature, "at least 0 and below 1");
  require(options.damping >= 0 && options.damping < 1, "damping", options.damping,
          "at least 0 and below 1");
  require(options.gradient_norm >= 0, "gradient_norm", options.gradient_norm, "at least 0");
  require(options.patience >= 1, "patience", options.patience, "at least 1");
  require(options.progress >= 0, "progress", options.progress, "at least 0");
}

std::vector<VectorName> vectors_of(const BatchState& state, BatchMethod method) {
  std::vector<VectorName> names = {state.weights, gradient_of(state.weights)};
  if (method == BatchMethod::lbfgs) {
    for (const std::int64_t iteration : state.history) {
      names.push_back(step_of(iteration));
      names.push_back(change_of(iteration));
    }
  }
  if (method == BatchMethod::conjugate_gradient && state.iteration > 0)
    names.push_back(state.direction);
  return names;
}

BatchVectors most_vectors(const BatchOptions& options) {
  constexpr int kPlace = 2;  // weights, and the gradient there
  constexpr int kSearch =
      5;  // the direction, the best place of those that were tried, and a new one
  const bool lbfgs = options.method == BatchMethod::lbfgs;
  const bool conjugate = options.method == BatchMethod::conjugate_gradient;
  BatchVectors most;
  most.state = kPlace + (lbfgs ? 2 * options.history : conjugate ? 1 : 0);
  // At its end an iteration makes a step and a change of the gradient, which may be damped.
  const int made = lbfgs ? (options.damping > 0 ? 3 : 2) : conjugate ? 1 : 0;
  most.all = most.state + kSearch + made;
  return most;
}

BatchOptimizer::BatchOptimizer(const BatchOptions& options, Space& space, Objective& objective)
    : options_(options), space_(space), objective_(objective) {
  validate(options);
}

double BatchOptimizer::product(const VectorName& a, const VectorName& b) const {
  return state_.products.at(in_order(a, b));
}

void BatchOptimizer::learn(std::vector<VectorPair> pairs) {
  for (VectorPair& pair : pairs) pair = in_order(pair.first, pair.second);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  const std::vector<double> products = space_.dots(pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) state_.products[pairs[i]] = products[i];
}

BatchIteration BatchOptimizer::begin() {
  state_ = BatchState{};
  const VectorName gradient = gradient_of(state_.weights);
  state_.loss = objective_.evaluate(state_.weights);
  state_.evaluations = 1;
  // There may be no gradient then.
  if (!std::isfinite(state_.loss)) {
    return {.loss = state_.loss,
            .gradient_norm = std::numeric_limits<double>::quiet_NaN(),
            .evaluations = 1,
            .ending = BatchEnding::not_finite};
  }
  learn({{gradient, gradient}});
  BatchIteration first{.loss = state_.loss,
                       .gradient_norm = std::sqrt(product(gradient, gradient)),
                       .evaluations = 1};
  if (!std::isfinite(first.gradient_norm)) {
    first.ending = BatchEnding::not_finite;
  } else if (first.gradient_norm <= options_.gradient_norm) {
    first.ending = BatchEnding::gradient;
  }
  return first;
}

// A method that doesn't use the history doesn't keep it up to date, either.
void BatchOptimizer::resume(BatchState state) {
  state_ = std::move(state);
  if (options_.method != BatchMethod::lbfgs) state_.history.clear();
}

BatchOptimizer::Direction BatchOptimizer::steepest() const {
  const VectorName gradient = gradient_of(state_.weights);
  const double square = product(gradient, gradient);
  return {{{-1, gradient}}, -square, std::sqrt(square)};
}

BatchOptimizer::Direction BatchOptimizer::direction() const {
  switch (options_.method) {
    case BatchMethod::lbfgs:
      return lbfgs();
    case BatchMethod::conjugate_gradient:
      return conjugate();
    case BatchMethod::gradient_descent:
      return steepest();
  }
  return steepest();
}

// The two loops of L-BFGS on the factors of a linear combination of steps, changes and the
// gradient: what they take of vectors are scalar products of these, which are known.
BatchOptimizer::Direction BatchOptimizer::lbfgs() const {
  if (state_.history.empty()) return steepest();
  const VectorName gradient = gradient_of(state_.weights);
  std::vector<Term> terms;  // step, change, step, change, ..., gradient
  for (const std::int64_t iteration : state_.history) {
    terms.push_back({0, step_of(iteration)});
    terms.push_back({0, change_of(iteration)});
  }
  terms.push_back({-1, gradient});
  const auto times = [&](const VectorName& other) {
    double sum = 0;
    for (const Term& term : terms) {
      if (term.factor != 0) sum += term.factor * product(term.vector, other);
    }
    return sum;
  };
  const std::size_t pairs = state_.history.size();
  std::vector<double> alphas(pairs);
  const auto step = [&](std::size_t i) -> Term& { return terms[2 * i]; };
  const auto change = [&](std::size_t i) -> Term& { return terms[2 * i + 1]; };
  const auto curvature = [&](std::size_t i) { return product(step(i).vector, change(i).vector); };
  for (std::size_t i = pairs; i-- > 0;) {
    alphas[i] = times(step(i).vector) / curvature(i);
    change(i).factor -= alphas[i];
  }
  const VectorName newest = change(pairs - 1).vector;
  const double scale = curvature(pairs - 1) / product(newest, newest);
  for (Term& term : terms) term.factor *= scale;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double beta = times(change(i).vector) / curvature(i);
    step(i).factor += alphas[i] - beta;
  }
  Direction direction{terms, times(gradient), 0};
  double square = 0;
  for (const Term& term : terms) square += term.factor * times(term.vector);
  direction.length = std::sqrt(std::max(0.0, square));
  return direction;
}

BatchOptimizer::Direction BatchOptimizer::conjugate() const {
  if (state_.iteration == 0) return steepest();
  const VectorName gradient = gradient_of(state_.weights);
  const VectorName before = state_.direction;
  const VectorName change = change_of(state_.iteration);
  // g . (g - g_before) / g_before . g_before, and g . g_before, by what is known of the change y =
  // g - g_before.
  const double square = product(gradient, gradient);
  const double with_change = product(gradient, change);
  const double square_before = square - 2 * with_change + product(change, change);
  const double factor = with_change / square_before;
  if (!(factor > 0) || std::abs(square - with_change) >= kNotOrthogonal * square) return steepest();
  const double along = product(gradient, before);
  const double length = square - 2 * factor * along + factor * factor * product(before, before);
  return {{{-1, gradient}, {factor, before}},
          -square + factor * along,
          std::sqrt(std::max(0.0, length))};
}

double BatchOptimizer::first_step(const Direction& direction, bool own) const {
  if (options_.method == BatchMethod::lbfgs && own && !state_.history.empty()) return 1;
  // As much of a change of the loss as the last iteration's, to first order; or no farther than 1.
  const double expected = state_.iteration > 0 && options_.method != BatchMethod::lbfgs
                              ? state_.step * state_.slope / direction.slope
                              : 0;
  return expected > 0 && std::isfinite(expected) ? expected : std::min(1.0, 1 / direction.length);
}

BatchOptimizer::Step BatchOptimizer::search(const Direction& direction, double first_step,
                                            int evaluations_before) {
  const std::int64_t iteration = state_.iteration + 1;
  const VectorName along = direction_of(iteration, evaluations_before);
  space_.combine(along, direction.terms);
  LineSearch search(options_.line_search, state_.loss, direction.slope, first_step);
  std::map<double, Step> tried;
  Step step{.direction = along, .evaluations = evaluations_before};
  for (;;) {
    step.step = search.step();
    step.weights = {VectorRole::weights, iteration, step.evaluations++};
    axpy(space_, step.weights, state_.weights, step.step, along);
    step.loss = objective_.evaluate(step.weights);
    const VectorPair slope{gradient_of(step.weights), along};
    const double told = std::isfinite(step.loss) ? space_.dots({&slope, 1}).front() : 0;
    tried[step.step] = step;
    switch (search.tell(step.loss, told)) {
      case LineSearch::Verdict::go_on:
        keep_for_search(along, tried, search.best_step());
        break;
      case LineSearch::Verdict::accept:
        step.found = true;
        return step;
      case LineSearch::Verdict::give_up: {
        const auto best = tried.find(search.best_step());
        if (best == tried.end()) return step;
        Step found = best->second;
        found.evaluations = step.evaluations;
        found.found = true;
        return found;
      }
    }
  }
}

// Of what was tried, the best is all that a search can come back to.
void BatchOptimizer::keep_for_search(const VectorName& along, const std::map<double, Step>& tried,
                                     double best) {
  if (tried.size() < 2) return;
  std::vector<VectorName> kept = vectors_of(state_, options_.method);
  kept.push_back(along);
  if (const auto found = tried.find(best); found != tried.end()) {
    kept.push_back(found->second.weights);
    kept.push_back(gradient_of(found->second.weights));
  }
  space_.keep(kept);
}

BatchIteration BatchOptimizer::iterate() {
  const BatchState before = state_;
  try {
    // What the iteration before has left. Not at its end: whoever has stored nothing of that yet
    // makes it again, and whoever looks at what is stored finds the vectors.
    space_.keep(vectors_of(state_, options_.method));
    Direction way = direction();
    bool own = true;
    if (!(way.slope < -kLeastDescent * way.length * std::sqrt(-steepest().slope)) ||
        !std::isfinite(way.length)) {
      way = steepest();
      own = false;
    }
    const bool was_steepest = way.terms.size() == 1;
    Step step = search(way, first_step(way, own), 0);
    if (!step.found && !was_steepest) {
      way = steepest();
      own = false;
      space_.keep(vectors_of(state_, options_.method));  // not what was tried in vain
      step = search(way, first_step(way, own), step.evaluations);
    }
    BatchIteration done{
        .iteration = state_.iteration + 1, .evaluations = step.evaluations, .restarted = !own};
    state_.evaluations += step.evaluations;
    if (!step.found) {
      done.loss = state_.loss;
      done.gradient_norm = std::sqrt(-steepest().slope);
      done.ending = BatchEnding::no_step;
      return done;
    }
    if (!own) state_.history.clear();
    const double loss_before = state_.loss;
    take(way, step);
    done.loss = state_.loss;
    done.step = step.step;
    const VectorName gradient = gradient_of(state_.weights);
    done.gradient_norm = std::sqrt(product(gradient, gradient));
    const double size = std::max(std::abs(loss_before), std::abs(state_.loss));
    const bool falls = loss_before - state_.loss > options_.progress * size;
    state_.stalled = falls ? 0 : state_.stalled + 1;
    if (done.gradient_norm <= options_.gradient_norm) {
      done.ending = BatchEnding::gradient;
    } else if (state_.stalled >= options_.patience) {
      done.ending = BatchEnding::progress;
    }
    return done;
  } catch (...) {
    state_ = before;
    throw;
  }
}

void BatchOptimizer::take(const Direction& direction, const Step& step) {
  const std::int64_t iteration = state_.iteration + 1;
  const VectorName gradient = gradient_of(step.weights);
  std::vector<VectorPair> pairs = {{gradient, gradient}};
  const std::array<Term, 2> difference = {Term{1, gradient}, Term{-1, gradient_of(state_.weights)}};
  if (options_.method == BatchMethod::lbfgs) {
    // What the weights have moved by, as their type has rounded it.
    const std::array<Term, 2> moved = {Term{1, step.weights}, Term{-1, state_.weights}};
    space_.combine(step_of(iteration), moved);
    make_change(iteration, difference);
    for (const VectorName& mine : {step_of(iteration), change_of(iteration), gradient}) {
      for (const std::int64_t earlier : state_.history) {
        pairs.push_back({mine, step_of(earlier)});
        pairs.push_back({mine, change_of(earlier)});
      }
      pairs.push_back({mine, step_of(iteration)});
      pairs.push_back({mine, change_of(iteration)});
    }
  } else if (options_.method == BatchMethod::conjugate_gradient) {
    const VectorName change = change_of(iteration), along = step.direction;
    space_.combine(change, difference);
    for (const VectorName& other : {change, along}) pairs.push_back({gradient, other});
    pairs.push_back({change, change});
    pairs.push_back({along, along});
  }
  learn(std::move(pairs));
  state_.iteration = iteration;
  state_.weights = step.weights;
  state_.loss = step.loss;
  state_.direction = step.direction;
  state_.step = step.step;
  state_.slope = direction.slope;
  if (options_.method == BatchMethod::lbfgs && tells_of_curvature(iteration)) {
    state_.history.push_back(iteration);
    // More than one where the run was begun with a longer history.
    while (state_.history.size() > static_cast<std::size_t>(options_.history))
      state_.history.erase(state_.history.begin());
  }
  std::vector<VectorName> known = vectors_of(state_, options_.method);
  // Of the last change conjugate directions need the products alone.
  known.push_back(change_of(iteration));
  const auto is_known = [&](const VectorName& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  std::erase_if(state_.products, [&](const auto& entry) {
    return !is_known(entry.first.first) || !is_known(entry.first.second);
  });
}

bool BatchOptimizer::tells_of_curvature(std::int64_t iteration) const {
  const VectorName step = step_of(iteration), change = change_of(iteration);
  const double length = std::sqrt(product(step, step) * product(change, change));
  return std::isfinite(length) && product(step, change) > options_.least_curvature * length;
}

// Powell's damping: y becomes part y + (1 - part) B s, such that s . y is `damping` s . B s, where
// B, what is believed of the second derivative, is the scale of the pair before.
void BatchOptimizer::make_change(std::int64_t iteration, std::span<const Term> difference) {
  const VectorName step = step_of(iteration), change = change_of(iteration);
  if (options_.damping == 0 || state_.history.empty()) return space_.combine(change, difference);
  const VectorName whole{VectorRole::change, iteration, 1};
  space_.combine(whole, difference);
  const std::array<VectorPair, 2> pairs = {VectorPair{step, step}, VectorPair{step, whole}};
  const std::vector<double> products = space_.dots(pairs);
  const VectorName last = change_of(state_.history.back());
  const double scale = product(last, last) / product(step_of(state_.history.back()), last);
  const double expected = scale * products[0];
  const bool damped = products[1] < options_.damping * expected;
  const double part = damped ? (1 - options_.damping) * expected / (expected - products[1]) : 1;
  const std::array<Term, 2> terms = {Term{part, whole}, Term{(1 - part) * scale, step}};
  space_.combine(change, {terms.data(), damped ? std::size_t{2} : std::size_t{1}});
}

}  // namespace convoy::optim
