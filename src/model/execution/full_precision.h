// Where bfloat16 is not enough.
#pragma once

#include <torch/torch.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace convoy::model {

// In its scope autocast leaves everything as it is.
class FullPrecision {
 public:
  // Gives the tensor in float32 if it is of a narrower floating-point type.
  torch::Tensor operator()(const torch::Tensor& tensor) const { return tensor.to(type(tensor)); }
  // Gives the options of such a tensor.
  torch::TensorOptions options(const torch::Tensor& tensor) const {
    return tensor.options().dtype(type(tensor));
  }

 private:
  static torch::Dtype type(const torch::Tensor& tensor) {
    const bool narrow = tensor.is_floating_point() && tensor.element_size() < 4;
    return narrow ? torch::kFloat : tensor.scalar_type();
  }

  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace convoy::model
