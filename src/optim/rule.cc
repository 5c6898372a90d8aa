#include "convoy/optim/rule.h"

#include <cmath>
#include <sstream>
#include <string>

#include "convoy/base/error.h"
#include "optim/kernels.h"

namespace convoy::optim {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 does not deduce it by itself

Adam as_adam(const AdamW& rule) {
  return {rule.lr, rule.beta1, rule.beta2, rule.eps, rule.weight_decay, rule.amsgrad};
}

// Lars without its trust ratio, and with that inside the rate.
SgdVelocity as_velocity(const Lars& rule, double ratio) {
  return {rule.lr * ratio, rule.momentum, rule.weight_decay};
}

Slots adam_slots(bool amsgrad) {
  Slots result;
  result.push_back({"exp_avg", 0});
  result.push_back({"exp_avg_sq", 0});
  if (amsgrad) result.push_back({"max_exp_avg_sq", 0});
  return result;
}

Slots velocity_slots() {
  Slots result;
  result.push_back({"velocity", 0});
  return result;
}

[[noreturn]] void refuse(const Rule& rule, std::string_view field, double value,
                         std::string_view wanted) {
  std::ostringstream text;
  text << name(rule) << ": " << field << " is " << value << "; it has to be " << wanted;
  throw UsageError(text.str());
}

void require_not_negative(const Rule& rule, std::string_view field, double value) {
  // Written so that NaN is refused, too.
  if (!(value >= 0)) refuse(rule, field, value, "0 or more");
}

void require_beta(const Rule& rule, std::string_view field, double value) {
  if (!(value >= 0 && value < 1)) refuse(rule, field, value, "at least 0 and less than 1");
}

void require_size(const Rule& rule, std::string_view what, std::size_t size, std::size_t wanted) {
  if (size == wanted) return;
  throw UsageError(std::string(name(rule)) + ": " + std::string(what) + " has " +
                   std::to_string(size) + " elements; it has to have " + std::to_string(wanted) +
                   ", as many as the weights");
}

// The arrays but for the weights, when all fit.
template <typename T>
Arrays<T> arrays_of(const Rule& rule, std::int64_t step, std::size_t size,
                    std::span<const T> gradient, std::span<const std::span<T>> state) {
  if (step < 1) refuse(rule, "step", static_cast<double>(step), "1 or more: steps count from 1");
  const Slots wanted = slots(rule);
  if (state.size() != wanted.size()) {
    throw UsageError(std::string(name(rule)) + ": " + std::to_string(state.size()) +
                     " slots of state were given; it keeps " + std::to_string(wanted.size()));
  }
  require_size(rule, "the gradient", gradient.size(), size);
  Arrays<T> arrays{size, nullptr, gradient.data(), {}};
  for (std::size_t i = 0; i < state.size(); ++i) {
    require_size(rule, wanted[i].name, state[i].size(), size);
    arrays.state[i] = state[i].data();
  }
  return arrays;
}

template <typename T>
Squares accumulate_arrays(const Rule& rule, std::int64_t step, const T* weights,
                          const Arrays<T>& arrays) {
  if (std::holds_alternative<Lars>(rule))
    return lars_squares(arrays.size, weights, arrays.gradient);
  if (const auto* lamb = std::get_if<Lamb>(&rule))
    return lamb_accumulate(*lamb, step, weights, arrays);
  return {};
}

template <typename T>
void apply_arrays(const Rule& rule, std::int64_t step, double ratio, const Arrays<T>& arrays) {
  std::visit(Overloaded{
                 [&](const Sgd& r) { sgd_step(r, step, arrays); },
                 [&](const Adam& r) { adam_step(r, /*decoupled=*/false, step, arrays); },
                 [&](const AdamW& r) { adam_step(as_adam(r), /*decoupled=*/true, step, arrays); },
                 [&](const Adagrad& r) { adagrad_step(r, step, arrays); },
                 [&](const SgdVelocity& r) { sgd_velocity_step(r, arrays); },
                 [&](const Lars& r) { sgd_velocity_step(as_velocity(r, ratio), arrays); },
                 [&](const Lamb& r) { lamb_apply(r, step, ratio, arrays); },
             },
             rule);
}

}  // namespace

Slots slots(const Rule& rule) {
  return std::visit(Overloaded{
                        [](const Sgd& r) {
                          Slots result;
                          if (r.momentum != 0) result.push_back({"momentum_buffer", 0});
                          return result;
                        },
                        [](const Adam& r) { return adam_slots(r.amsgrad); },
                        [](const AdamW& r) { return adam_slots(r.amsgrad); },
                        [](const Adagrad& r) {
                          Slots result;
                          result.push_back({"sum", r.initial_accumulator_value});
                          return result;
                        },
                        [](const SgdVelocity&) { return velocity_slots(); },
                        [](const Lars&) { return velocity_slots(); },
                        [](const Lamb&) { return adam_slots(false); },
                    },
                    rule);
}

std::string_view name(const Rule& rule) {
  return std::visit(Overloaded{
                        [](const Sgd&) { return "sgd"; },
                        [](const Adam&) { return "adam"; },
                        [](const AdamW&) { return "adamw"; },
                        [](const Adagrad&) { return "adagrad"; },
                        [](const SgdVelocity&) { return "sgd_velocity"; },
                        [](const Lars&) { return "lars"; },
                        [](const Lamb&) { return "lamb"; },
                    },
                    rule);
}

double learning_rate(const Rule& rule) {
  return std::visit([](const auto& r) { return r.lr; }, rule);
}

void set_learning_rate(Rule& rule, double lr) {
  std::visit([lr](auto& r) { r.lr = lr; }, rule);
}

void validate(const Rule& rule) {
  require_not_negative(rule, "lr", learning_rate(rule));
  std::visit([&](const auto& r) { require_not_negative(rule, "weight_decay", r.weight_decay); },
             rule);
  const auto check_adam = [&](const auto& r) {
    require_beta(rule, "beta1", r.beta1);
    require_beta(rule, "beta2", r.beta2);
    require_not_negative(rule, "eps", r.eps);
  };
  std::visit(Overloaded{
                 [&](const Sgd& r) {
                   require_not_negative(rule, "momentum", r.momentum);
                   if (!r.nesterov) return;
                   if (r.momentum == 0) refuse(rule, "momentum", 0, "positive with nesterov");
                   if (r.dampening != 0) {
                     refuse(rule, "dampening", r.dampening, "0 with nesterov");
                   }
                 },
                 [&](const Adam& r) { check_adam(r); },
                 [&](const AdamW& r) { check_adam(r); },
                 [&](const Adagrad& r) {
                   require_not_negative(rule, "lr_decay", r.lr_decay);
                   require_not_negative(rule, "initial_accumulator_value",
                                        r.initial_accumulator_value);
                   require_not_negative(rule, "eps", r.eps);
                 },
                 [&](const SgdVelocity& r) { require_not_negative(rule, "momentum", r.momentum); },
                 [&](const Lars& r) {
                   require_not_negative(rule, "momentum", r.momentum);
                   require_not_negative(rule, "trust_coefficient", r.trust_coefficient);
                   require_not_negative(rule, "eps", r.eps);
                 },
                 [&](const Lamb& r) { check_adam(r); },
             },
             rule);
}

bool is_layerwise(const Rule& rule) {
  return std::holds_alternative<Lars>(rule) || std::holds_alternative<Lamb>(rule);
}

double trust_ratio(const Rule& rule, const Squares& squares) {
  const double weights = std::sqrt(squares.weights), direction = std::sqrt(squares.direction);
  // Of a parameter that begins with zeros the ratio would keep it there. By a direction that is
  // next to nothing it would be more than a float can hold, and no number times its zeros.
  constexpr double kLeast = 1e-30;
  if (!(weights > 0 && direction > kLeast)) return 1;
  if (const auto* lars = std::get_if<Lars>(&rule)) {
    return lars->trust_coefficient * weights /
           (direction + lars->weight_decay * weights + lars->eps);
  }
  return std::holds_alternative<Lamb>(rule) ? weights / direction : 1;
}

template <typename T>
void update(const Rule& rule, std::int64_t step, std::span<T> weights, std::span<const T> gradient,
            std::span<const std::span<T>> state) {
  Arrays<T> arrays = arrays_of(rule, step, weights.size(), gradient, state);
  arrays.weights = weights.data();
  double ratio = 1;
  if (is_layerwise(rule))
    ratio = trust_ratio(rule, accumulate_arrays<T>(rule, step, weights.data(), arrays));
  apply_arrays(rule, step, ratio, arrays);
}

template <typename T>
Squares accumulate(const Rule& rule, std::int64_t step, std::span<const T> weights,
                   std::span<const T> gradient, std::span<const std::span<T>> state) {
  return accumulate_arrays(rule, step, weights.data(),
                           arrays_of(rule, step, weights.size(), gradient, state));
}

template <typename T>
void apply(const Rule& rule, std::int64_t step, double ratio, std::span<T> weights,
           std::span<const T> gradient, std::span<const std::span<T>> state) {
  Arrays<T> arrays = arrays_of(rule, step, weights.size(), gradient, state);
  arrays.weights = weights.data();
  apply_arrays(rule, step, ratio, arrays);
}

template void update<float>(const Rule&, std::int64_t, std::span<float>, std::span<const float>,
                            std::span<const std::span<float>>);
template void update<double>(const Rule&, std::int64_t, std::span<double>, std::span<const double>,
                             std::span<const std::span<double>>);
template Squares accumulate<float>(const Rule&, std::int64_t, std::span<const float>,
                                   std::span<const float>, std::span<const std::span<float>>);
template Squares accumulate<double>(const Rule&, std::int64_t, std::span<const double>,
                                    std::span<const double>, std::span<const std::span<double>>);
template void apply<float>(const Rule&, std::int64_t, double, std::span<float>,
                           std::span<const float>, std::span<const std::span<float>>);
template void apply<double>(const Rule&, std::int64_t, double, std::span<double>,
                            std::span<const double>, std::span<const std::span<double>>);

}  // namespace convoy::optim
