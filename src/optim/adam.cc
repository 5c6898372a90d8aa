#include <cmath>

#include "optim/kernels.h"

namespace convoy::optim {
namespace {

template <typename T>
struct Factors {
  T shrink;        // of w before the step: 1, or AdamW's decay
  T decay;         // of w into the gradient: Adam's decay, or 0
  T beta1, rest1;  // rest = 1 - beta, computed in double
  T beta2, rest2;
  T step_size;
  T correction;  // sqrt(1 - beta2^t)
  T eps;
};

template <typename T, bool kAmsgrad>
void adam_loop(std::size_t size, T* __restrict w, const T* __restrict g, T* __restrict average,
               T* __restrict square, T* __restrict largest, const Factors<T> f) {
  for (std::size_t i = 0; i < size; ++i) {
    const T weight = w[i] * f.shrink;
    const T d = g[i] + f.decay * weight;
    const T m = f.beta1 * average[i] + f.rest1 * d;
    const T v = f.beta2 * square[i] + f.rest2 * d * d;
    average[i] = m;
    square[i] = v;
    T scale = v;
    if constexpr (kAmsgrad) {
      scale = largest[i] > v ? largest[i] : v;
      largest[i] = scale;
    }
    w[i] = weight - f.step_size * m / (std::sqrt(scale) / f.correction + f.eps);
  }
}

}  // namespace

template <typename T>
void adam_step(const Adam& rule, bool decoupled, std::int64_t step, const Arrays<T>& a) {
  const auto t = static_cast<double>(step);
  const Factors<T> factors{
      .shrink = static_cast<T>(decoupled ? 1 - rule.lr * rule.weight_decay : 1),
      .decay = static_cast<T>(decoupled ? 0 : rule.weight_decay),
      .beta1 = static_cast<T>(rule.beta1),
      .rest1 = static_cast<T>(1 - rule.beta1),
      .beta2 = static_cast<T>(rule.beta2),
      .rest2 = static_cast<T>(1 - rule.beta2),
      .step_size = static_cast<T>(rule.lr / (1 - std::pow(rule.beta1, t))),
      .correction = static_cast<T>(std::sqrt(1 - std::pow(rule.beta2, t))),
      .eps = static_cast<T>(rule.eps),
  };
  const auto loop = rule.amsgrad ? adam_loop<T, true> : adam_loop<T, false>;
  loop(a.size, a.weights, a.gradient, a.state[0], a.state[1], a.state[2], factors);
}

template void adam_step<float>(const Adam&, bool, std::int64_t, const Arrays<float>&);
template void adam_step<double>(const Adam&, bool, std::int64_t, const Arrays<double>&);

}  // namespace convoy::optim
