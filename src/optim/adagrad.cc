#include <cmath>

#include "optim/kernels.h"

namespace convoy::optim {
namespace {

template <typename T>
void adagrad_loop(std::size_t size, T* __restrict w, const T* __restrict g, T* __restrict sum, T lr,
                  T decay, T eps) {
  for (std::size_t i = 0; i < size; ++i) {
    const T d = g[i] + decay * w[i];
    const T s = sum[i] + d * d;
    sum[i] = s;
    w[i] -= lr * d / (std::sqrt(s) + eps);
  }
}

}  // namespace

template <typename T>
void adagrad_step(const Adagrad& rule, std::int64_t step, const Arrays<T>& a) {
  const double lr = rule.lr / (1 + static_cast<double>(step - 1) * rule.lr_decay);
  adagrad_loop(a.size, a.weights, a.gradient, a.state[0], static_cast<T>(lr),
               static_cast<T>(rule.weight_decay), static_cast<T>(rule.eps));
}

template void adagrad_step<float>(const Adagrad&, std::int64_t, const Arrays<float>&);
template void adagrad_step<double>(const Adagrad&, std::int64_t, const Arrays<double>&);

}  // namespace convoy::optim
