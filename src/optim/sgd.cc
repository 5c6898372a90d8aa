#include "optim/kernels.h"

namespace convoy::optim {
namespace {

template <typename T, bool kNesterov>
void momentum_loop(std::size_t size, T* __restrict w, const T* __restrict g, T* __restrict buffer,
                   T lr, T decay, T momentum, T fresh) {
  for (std::size_t i = 0; i < size; ++i) {
    const T d = g[i] + decay * w[i];
    const T b = momentum * buffer[i] + fresh * d;
    buffer[i] = b;
    w[i] -= lr * (kNesterov ? d + momentum * b : b);
  }
}

template <typename T>
void plain_loop(std::size_t size, T* __restrict w, const T* __restrict g, T lr, T decay) {
  for (std::size_t i = 0; i < size; ++i) w[i] -= lr * (g[i] + decay * w[i]);
}

template <typename T>
void velocity_loop(std::size_t size, T* __restrict w, const T* __restrict g, T* __restrict velocity,
                   T lr, T decay, T momentum) {
  for (std::size_t i = 0; i < size; ++i) {
    const T v = momentum * velocity[i] - lr * (g[i] + decay * w[i]);
    velocity[i] = v;
    w[i] += v;
  }
}

}  // namespace

template <typename T>
void sgd_step(const Sgd& rule, std::int64_t step, const Arrays<T>& a) {
  const T lr = static_cast<T>(rule.lr);
  const T decay = static_cast<T>(rule.weight_decay);
  if (rule.momentum == 0) return plain_loop(a.size, a.weights, a.gradient, lr, decay);
  // The buffer starts as zeros, so the first step needs no loop of its own: only no dampening.
  const T fresh = step == 1 ? T{1} : static_cast<T>(1 - rule.dampening);
  const auto loop = rule.nesterov ? momentum_loop<T, true> : momentum_loop<T, false>;
  loop(a.size, a.weights, a.gradient, a.state[0], lr, decay, static_cast<T>(rule.momentum), fresh);
}

template <typename T>
void sgd_velocity_step(const SgdVelocity& rule, const Arrays<T>& a) {
  velocity_loop(a.size, a.weights, a.gradient, a.state[0], static_cast<T>(rule.lr),
                static_cast<T>(rule.weight_decay), static_cast<T>(rule.momentum));
}

template void sgd_velocity_step<float>(const SgdVelocity&, const Arrays<float>&);
template void sgd_velocity_step<double>(const SgdVelocity&, const Arrays<double>&);
template void sgd_step<float>(const Sgd&, std::int64_t, const Arrays<float>&);
template void sgd_step<double>(const Sgd&, std::int64_t, const Arrays<double>&);

}  // namespace convoy::optim
