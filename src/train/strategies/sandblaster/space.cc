#include "train/strategies/sandblaster/space.h"

#include "convoy/base/error.h"
#include "convoy/parallel/distributed_model.h"

namespace convoy::train {
namespace {

template <typename T>
torch::Tensor tensor_over(const T* values, const torch::Tensor& like) {
  // Nothing is written through it where the memory is constant.
  return torch::from_blob(const_cast<T*>(values), like.sizes(),
                          torch::TensorOptions().dtype(torch::CppTypeToScalarType<T>::value));
}

}  // namespace

template <typename T>
BatchBlock<T>::BatchBlock(const Vectors& vectors, bool pushed) : vectors_(vectors) {
  std::size_t elements = 0;
  for (const OwnVector& own : vectors_.own()) {
    if (own.statistic || (pushed && !own.pushed)) continue;
    own_.push_back(&own);
    elements += static_cast<std::size_t>(own.tensor.numel());
  }
  values_.resize(elements);
  std::size_t at = 0;
  for (const OwnVector* own : own_) {
    const auto size = static_cast<std::size_t>(own->tensor.numel());
    views_.push_back({own->vector, std::span(values_).subspan(at, size)});
    const_views_.push_back({own->vector, std::span<const T>(values_).subspan(at, size)});
    at += size;
  }
}

template <typename T>
void BatchBlock<T>::take_weights() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own_.size(); ++i)
    tensor_over(views_[i].values.data(), own_[i]->tensor).copy_(own_[i]->tensor);
}

template <typename T>
void BatchBlock<T>::set_weights() const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own_.size(); ++i)
    own_[i]->tensor.copy_(tensor_over(views_[i].values.data(), own_[i]->tensor));
}

template class BatchBlock<float>;
template class BatchBlock<double>;

template <typename T>
void add_gradients(const Vectors& vectors, double weight, std::span<T> to) {
  const torch::NoGradGuard no_grad;
  std::size_t at = 0;
  for (const OwnVector& own : vectors.own()) {
    if (own.statistic || !own.pushed) continue;
    if (const torch::Tensor& gradient = own.tensor.grad(); gradient.defined()) {
      torch::Tensor sum = tensor_over(to.data() + at, own.tensor);
      sum.add_(gradient.to(torch::kCPU), weight);
    }
    at += static_cast<std::size_t>(own.tensor.numel());
  }
}

template void add_gradients<float>(const Vectors&, double, std::span<float>);
template void add_gradients<double>(const Vectors&, double, std::span<double>);

OneFunction::OneFunction(const torch::nn::Module& module) {
  for (const auto& buffer : parallel::unique_buffers(module)) {
    if (buffer.name.ends_with("running_mean") || buffer.name.ends_with("running_var")) {
      throw UsageError(
          "the network has batch normalization ('" + buffer.name +
          "'): its loss depends on which samples are computed together, and there is no one "
          "function for sandblaster to minimize. Choose a network without, or another strategy");
    }
    kept_.push_back({buffer.name, buffer.tensor, buffer.tensor.detach().clone()});
  }
}

void OneFunction::check() const {
  for (const Kept& each : kept_) {
    if (torch::equal(each.tensor, each.before)) continue;
    if (each.tensor.is_floating_point() &&
        torch::logical_or(each.tensor.eq(each.before),
                          torch::logical_and(each.tensor.isnan(), each.before.isnan()))
            .all()
            .item<bool>())
      continue;
    throw UsageError("a pass in training changes '" + each.name +
                     "' of the network: its loss would be another function in every evaluation. "
                     "Choose a network that only its parameters change, or another strategy");
  }
}

}  // namespace convoy::train
