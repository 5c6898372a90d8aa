#include "convoy/comm/types.h"

namespace convoy::comm {

std::size_t size_of(Type type) {
  constexpr std::size_t sizes[] = {4, 8, 2, 2, 4, 8, 1};
  return sizes[static_cast<std::size_t>(type)];
}

const char* name_of(Type type) {
  constexpr const char* names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8"};
  return names[static_cast<std::size_t>(type)];
}

bool is_floating(Type type) {
  return type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16;
}

const char* name_of(ReduceOp op) {
  constexpr const char* names[] = {"sum", "average", "max", "min"};
  return names[static_cast<std::size_t>(op)];
}

}  // namespace convoy::comm
