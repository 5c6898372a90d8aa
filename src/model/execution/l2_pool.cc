#include "model/execution/l2_pool.h"

#include <vector>

#include "model/execution/full_precision.h"

namespace convoy::model {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

layer::Pair pair_at(const std::vector<std::int64_t>& numbers, std::size_t at) {
  return {numbers[at], numbers[at + 1]};
}

// An average of divisor 1 is the sum.
struct Sum {
  layer::Pair kernel, stride, padding;
  static constexpr bool kCeilMode = false, kCountPadding = true;
  static constexpr std::int64_t kDivisor = 1;

  Tensor operator()(const Tensor& input) const {
    return at::avg_pool2d(input, kernel, stride, padding, kCeilMode, kCountPadding, kDivisor);
  }
  // To each element of an image like `input` the sum of the gradients of its windows.
  Tensor backward(const Tensor& gradient, const Tensor& input) const {
    return at::avg_pool2d_backward(gradient, input, kernel, stride, padding, kCeilMode,
                                   kCountPadding, kDivisor);
  }
};

class L2PoolFunction : public torch::autograd::Function<L2PoolFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const layer::L2Pool& pool) {
    const FullPrecision full;
    const Sum sum{pool.kernel, pool.stride, pool.padding};
    const Tensor output = sum(full(input).square()).add_(pool.epsilon).sqrt_();
    context->saved_data["windows"] =
        std::vector<std::int64_t>{pool.kernel[0], pool.kernel[1],  pool.stride[0],
                                  pool.stride[1], pool.padding[0], pool.padding[1]};
    context->save_for_backward({input, output});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const FullPrecision full;
    const variable_list saved = context->get_saved_variables();
    const Tensor input = full(saved[0]), &output = saved[1];
    const auto windows = context->saved_data["windows"].toIntVector();
    const Sum sum{pair_at(windows, 0), pair_at(windows, 2), pair_at(windows, 4)};
    const Tensor gradient = input * sum.backward(gradients[0] / output, input);
    return {gradient.to(saved[0].scalar_type()), Tensor()};
  }
};

}  // namespace

Tensor l2_pool(const Tensor& input, const layer::L2Pool& pool) {
  return L2PoolFunction::apply(input, pool);
}

}  // namespace convoy::model
