// Update rules of optimizers on plain memory: what one step does to weights, gradient and state.
//
// Free of Torch, MPI and threads, so that a parameter server applies the same rules to its shards
// as a trainer to its tensors. A rule is a value: copy it, compare it, change its learning rate.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace convoy::optim {

// In the equations: w a weight, g its gradient, t the step, from 1; all others are fields of the
// rule or slots of the state. Fields, defaults and results are those of torch.optim, if it has
// them.

// d = g + weight_decay w
// momentum_buffer = d                                               at t = 1
// momentum_buffer = momentum momentum_buffer + (1 - dampening) d    later
// w = w - lr (nesterov ? d + momentum momentum_buffer : momentum_buffer)
// Without momentum there is no slot, and w = w - lr d.
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool operator==(const Sgd&) const = default;
};

// Momentum as Krizhevsky 2014 has it (section 5), with the learning rate inside the velocity:
// velocity = momentum velocity - lr (g + weight_decay w)
// w = w + velocity
// With one rate these are Sgd's weights; where the rate changes, steps that were gathered before
// keep the one they were made with. torch.optim has no such rule.
struct SgdVelocity {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool operator==(const SgdVelocity&) const = default;
};

// d = g + weight_decay w
// exp_avg = beta1 exp_avg + (1 - beta1) d;  exp_avg_sq = beta2 exp_avg_sq + (1 - beta2) d^2
// v = exp_avg_sq, or with amsgrad: max_exp_avg_sq = max(max_exp_avg_sq, exp_avg_sq)
// w = w - lr / (1 - beta1^t) exp_avg / (sqrt(v) / sqrt(1 - beta2^t) + eps)
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool operator==(const Adam&) const = default;
};

// Adam with decoupled decay (Loshchilov and Hutter 2019): w = w (1 - lr weight_decay), then Adam's
// step with d = g.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool operator==(const AdamW&) const = default;
};

// d = g + weight_decay w;  sum = sum + d^2
// w = w - lr / (1 + (t - 1) lr_decay) d / (sqrt(sum) + eps)
struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool operator==(const Adagrad&) const = default;
};

// Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, algorithm 1). |.| is the
// Euclidean norm over a whole parameter, r its trust ratio:
// r = trust_coefficient |w| / (|g| + weight_decay |w| + eps), or 1 where |w| is 0, or |g| is not
// above 1e-30
// velocity = momentum velocity - lr r (g + weight_decay w)
// w = w + velocity
// torch.optim has no such rule, nor the next one.
struct Lars {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;
  double eps = 0;
  bool operator==(const Lars&) const = default;
};

// Lamb (You et al. 2020, Large Batch Optimization for Deep Learning, algorithm 2, with the identity
// as its scaling function):
// exp_avg = beta1 exp_avg + (1 - beta1) g;  exp_avg_sq = beta2 exp_avg_sq + (1 - beta2) g^2
// u = exp_avg / (1 - beta1^t) / (sqrt(exp_avg_sq) / sqrt(1 - beta2^t) + eps) + weight_decay w
// r = |w| / |u|, or 1 where |w| is 0, or |u| is not above 1e-30
// w = w - lr r u
struct Lamb {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  bool operator==(const Lamb&) const = default;
};

using Rule = std::variant<Sgd, Adam, AdamW, Adagrad, SgdVelocity, Lars, Lamb>;

// This is one array of state, as long as the weights. Names are torch.optim's.
struct Slot {
  std::string_view name;
  double initial;  // every element, before the first step
  bool operator==(const Slot&) const = default;
};

// Has at most kMaxSlots, in the order that update() takes them.
class Slots {
 public:
  static constexpr std::size_t kMaxSlots = 3;
  void push_back(Slot slot) { slots_[size_++] = slot; }
  std::size_t size() const { return size_; }
  const Slot& operator[](std::size_t i) const { return slots_[i]; }
  const Slot* begin() const { return slots_; }
  const Slot* end() const { return slots_ + size_; }

 private:
  Slot slots_[kMaxSlots] = {};
  std::size_t size_ = 0;
};

// Gives the state that this rule keeps for each weight. It depends on the fields that say whether a
// part is used (momentum, amsgrad), never on learning rates; so it stays the same while those
// change.
Slots slots(const Rule& rule);

// "sgd", "adam", "adamw", "adagrad", "sgd_velocity", "lars", "lamb".
std::string_view name(const Rule& rule);

double learning_rate(const Rule& rule);
void set_learning_rate(Rule& rule, double lr);

// Throws UsageError naming the rule, the field, its value and what would be right.
void validate(const Rule& rule);

// Makes one step, in place, in one pass over the memory.
//
// weights, gradient and each slot of state have the same number of elements, any number, at any
// alignment that T allows; state holds one span per slot of slots(rule), in that order. No two of
// them may overlap. `step` counts the updates of these weights from 1; the state before step 1
// holds the slots' initial values.
//
// Each element depends on its own index alone: a long array may be cut anywhere and its pieces
// updated by several threads, with the same bits as in one call. A layer-wise rule takes the arrays
// for a whole parameter; below is how to cut those. The arithmetic is done in T,
// without contraction to fused multiply-adds, so machines with different vector units agree on
// every bit. Throws UsageError when sizes, the number of slots or the step don't fit. T is float or
// double.
template <typename T>
void update(const Rule& rule, std::int64_t step, std::span<T> weights, std::span<const T> gradient,
            std::span<const std::span<T>> state);

extern template void update<float>(const Rule&, std::int64_t, std::span<float>,
                                   std::span<const float>, std::span<const std::span<float>>);
extern template void update<double>(const Rule&, std::int64_t, std::span<double>,
                                    std::span<const double>, std::span<const std::span<double>>);

// -- Parameters of layer-wise rules, in pieces
//
// Threads, ranks or machines may each have a piece of a parameter. Every piece is accumulated, the
// sums of all are added up, and with the trust ratio that follows from them every piece is updated.

// Whether the rule goes by norms of whole parameters: Lars and Lamb do.
bool is_layerwise(const Rule& rule);

// What a trust ratio follows from: of a piece or, added up, of a parameter.
struct Squares {
  double weights = 0;
  double direction = 0;  // the gradient of Lars, u of Lamb
  Squares& operator+=(const Squares& other) {
    weights += other.weights;
    direction += other.direction;
    return *this;
  }
  bool operator==(const Squares&) const = default;
};

// Begins a step of a piece: brings that state up to date which depends on gradients alone, and
// gives the piece's sums of squares, each square and sum in double, in an order that depends on the
// size alone. So a parameter that is cut elsewhere has the same sums but for their last digits
// (1e-13 of them). Of other rules it changes nothing and gives zeros. Arguments and errors are
// those of update().
template <typename T>
Squares accumulate(const Rule& rule, std::int64_t step, std::span<const T> weights,
                   std::span<const T> gradient, std::span<const std::span<T>> state);

// Gives r above, from the sums of a whole parameter; 1 for other rules.
double trust_ratio(const Rule& rule, const Squares& squares);

// Ends the step of a piece that was accumulated with this rule, step and gradient; with 1 for
// `ratio` the rule does without r. Of other rules this is update().
template <typename T>
void apply(const Rule& rule, std::int64_t step, double ratio, std::span<T> weights,
           std::span<const T> gradient, std::span<const std::span<T>> state);

extern template Squares accumulate<float>(const Rule&, std::int64_t, std::span<const float>,
                                          std::span<const float>,
                                          std::span<const std::span<float>>);
extern template Squares accumulate<double>(const Rule&, std::int64_t, std::span<const double>,
                                           std::span<const double>,
                                           std::span<const std::span<double>>);
extern template void apply<float>(const Rule&, std::int64_t, double, std::span<float>,
                                  std::span<const float>, std::span<const std::span<float>>);
extern template void apply<double>(const Rule&, std::int64_t, double, std::span<double>,
                                   std::span<const double>, std::span<const std::span<double>>);

}  // namespace convoy::optim
