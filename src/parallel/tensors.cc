#include "parallel/tensors.h"

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

at::Tensor view_like(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like) {
  const at::Tensor part = flat.narrow(0, offset, like.numel());
  return like.is_non_overlapping_and_dense() ? part.as_strided(like.sizes(), like.strides())
                                             : part.view(like.sizes());
}

}  // namespace convoy::parallel
