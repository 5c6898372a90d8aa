// Rules that go by norms of whole parameters.
#include <algorithm>
#include <cmath>

#include "optim/kernels.h"

namespace convoy::optim {
namespace {

// Compilers make vector instructions of sums that are apart, which are then the same sums on every
// processor.
constexpr std::size_t kLanes = 8;

template <typename T>
double sum_of_squares(std::size_t size, const T* __restrict values) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i + lane < size; ++lane) {
    const auto value = static_cast<double>(values[i + lane]);
    lanes[lane] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <typename T>
struct LambFactors {
  T beta1, rest1;  // rest = 1 - beta, computed in double
  T beta2, rest2;
  T bias1, bias2;  // 1 - beta1^t, sqrt(1 - beta2^t)
  T eps, decay;
};

template <typename T>
LambFactors<T> factors_of(const Lamb& rule, std::int64_t step) {
  const auto t = static_cast<double>(step);
  return {.beta1 = static_cast<T>(rule.beta1),
          .rest1 = static_cast<T>(1 - rule.beta1),
          .beta2 = static_cast<T>(rule.beta2),
          .rest2 = static_cast<T>(1 - rule.beta2),
          .bias1 = static_cast<T>(1 - std::pow(rule.beta1, t)),
          .bias2 = static_cast<T>(std::sqrt(1 - std::pow(rule.beta2, t))),
          .eps = static_cast<T>(rule.eps),
          .decay = static_cast<T>(rule.weight_decay)};
}

// The same in both parts, which see the same weights.
template <typename T>
T direction(T weight, T average, T square, const LambFactors<T>& f) {
  return average / f.bias1 / (std::sqrt(square) / f.bias2 + f.eps) + f.decay * weight;
}

template <typename T>
void accumulate_loop(std::size_t size, const T* __restrict w, const T* __restrict g,
                     T* __restrict average, T* __restrict square, T* __restrict u,
                     const LambFactors<T> f) {
  for (std::size_t i = 0; i < size; ++i) {
    const T m = f.beta1 * average[i] + f.rest1 * g[i];
    const T v = f.beta2 * square[i] + f.rest2 * g[i] * g[i];
    average[i] = m;
    square[i] = v;
    u[i] = direction(w[i], m, v, f);
  }
}

template <typename T>
void apply_loop(std::size_t size, T* __restrict w, const T* __restrict average,
                const T* __restrict square, T rate, const LambFactors<T> f) {
  for (std::size_t i = 0; i < size; ++i) w[i] -= rate * direction(w[i], average[i], square[i], f);
}

}  // namespace

template <typename T>
Squares lars_squares(std::size_t size, const T* weights, const T* gradient) {
  return {sum_of_squares(size, weights), sum_of_squares(size, gradient)};
}

template <typename T>
Squares lamb_accumulate(const Lamb& rule, std::int64_t step, const T* weights, const Arrays<T>& a) {
  // A block is still in the processor's nearest cache when its squares are taken.
  constexpr std::size_t kBlock = 1024;
  T u[kBlock];
  const LambFactors<T> factors = factors_of<T>(rule, step);
  Squares squares;
  for (std::size_t begin = 0; begin < a.size; begin += kBlock) {
    const std::size_t size = std::min(kBlock, a.size - begin);
    accumulate_loop(size, weights + begin, a.gradient + begin, a.state[0] + begin,
                    a.state[1] + begin, u, factors);
    squares += {sum_of_squares(size, weights + begin), sum_of_squares(size, u)};
  }
  return squares;
}

template <typename T>
void lamb_apply(const Lamb& rule, std::int64_t step, double ratio, const Arrays<T>& a) {
  apply_loop(a.size, a.weights, a.state[0], a.state[1], static_cast<T>(rule.lr * ratio),
             factors_of<T>(rule, step));
}

template Squares lars_squares<float>(std::size_t, const float*, const float*);
template Squares lars_squares<double>(std::size_t, const double*, const double*);
template Squares lamb_accumulate<float>(const Lamb&, std::int64_t, const float*,
                                        const Arrays<float>&);
template Squares lamb_accumulate<double>(const Lamb&, std::int64_t, const double*,
                                         const Arrays<double>&);
template void lamb_apply<float>(const Lamb&, std::int64_t, double, const Arrays<float>&);
template void lamb_apply<double>(const Lamb&, std::int64_t, double, const Arrays<double>&);

}  // namespace convoy::optim
