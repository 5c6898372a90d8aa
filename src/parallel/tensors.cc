#include "parallel/tensors.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>

#include "convoy/base/error.h"

namespace convoy::parallel {

comm::Type type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return comm::Type::f32;
    case at::kDouble:
      return comm::Type::f64;
    case at::kHalf:
      return comm::Type::f16;
    case at::kBFloat16:
      return comm::Type::bf16;
    case at::kInt:
      return comm::Type::i32;
    case at::kLong:
      return comm::Type::i64;
    case at::kByte:
    case at::kChar:
    case at::kBool:
      return comm::Type::u8;
    default:
      throw UsageError(std::string("tensors of type ") + c10::toString(type) +
                       " can't be communicated");
  }
}

comm::Buffer buffer_of(const at::Tensor& tensor) {
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
          type_of(tensor.scalar_type())};
}

namespace {

template <class To>
void convert_scaled(at::TensorIteratorBase& elements, float scale) {
  elements.for_each([scale](char** data, const std::int64_t* strides, std::int64_t count) {
    constexpr std::int64_t kTo = sizeof(To), kFrom = sizeof(float);
    if (strides[0] == kTo && strides[1] == kFrom) {  // a loop that compilers vectorize
      auto* to = reinterpret_cast<To*>(data[0]);
      const auto* from = reinterpret_cast<const float*>(data[1]);
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i] * scale);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const float from = *reinterpret_cast<const float*>(data[1] + i * strides[1]);
      *reinterpret_cast<To*>(data[0] + i * strides[0]) = static_cast<To>(from * scale);
    }
  });
}

}  // namespace

void copy_scaled(at::Tensor& to, const at::Tensor& from, double scale) {
  // A device converts each element as it is written.
  if (to.scalar_type() == from.scalar_type() || !to.is_cpu()) {
    // In double, which leaves the result's type alone: as bfloat16, 1/3 would be 0.2% too large.
    at::mul_out(to, from, at::scalar_tensor(scale, at::kDouble));
    return;
  }
  TORCH_CHECK(from.scalar_type() == at::kFloat, "a gradient of type ", from.scalar_type(),
              " in a bucket of type ", to.scalar_type());
  // mul_out would multiply into a float32 tensor of its own first.
  auto elements = at::TensorIteratorConfig()
                      .add_output(to)
                      .add_const_input(from)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .build();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, to.scalar_type(), "copy_scaled", [&] {
    convert_scaled<scalar_t>(elements, static_cast<float>(scale));
  });
}

at::Tensor view_like(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like) {
  const at::Tensor part = flat.narrow(0, offset, like.numel());
  return like.is_non_overlapping_and_dense() ? part.as_strided(like.sizes(), like.strides())
                                             : part.view(like.sizes());
}

}  // namespace convoy::parallel
