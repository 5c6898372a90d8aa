// Torch tensors as buffers of communication.
#pragma once

#include <torch/torch.h>

#include "convoy/comm/types.h"

namespace convoy::parallel {

// f32, f64, f16, bf16, i32, i64 and byte types. Throws UsageError for others.
comm::Type type_of(at::ScalarType type);

// The memory of a CPU tensor that has no holes.
comm::Buffer buffer_of(const at::Tensor& tensor);

// A view of `flat` from `offset` on, shaped and laid out like `like` (channels-last stays so), or
// contiguous if `like` is not dense.
at::Tensor view_like(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like);

// to = from * scale, element by element, in one pass: neither a conversion nor different strides
// make a temporary tensor. `to` and `from` are of the same shape and on the same device; `from` has
// the type of `to`, or is float32 where that is of another floating-point type.
void copy_scaled(at::Tensor& to, const at::Tensor& from, double scale);

}  // namespace convoy::parallel
