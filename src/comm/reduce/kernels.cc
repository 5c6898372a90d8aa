#include "comm/reduce/kernels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

float widen(float v) { return v; }
double widen(double v) { return v; }
std::int32_t widen(std::int32_t v) { return v; }
std::int64_t widen(std::int64_t v) { return v; }
std::uint8_t widen(std::uint8_t v) { return v; }
float widen(Bf16 v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16); }

float widen(F16 v) {
  const std::uint32_t sign = static_cast<std::uint32_t>(v.bits & 0x8000) << 16;
  const std::uint32_t rest = v.bits & 0x7fff;
  if (rest >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | ((rest & 0x3ff) << 13));  // inf, NaN
  // The exponent is rebased by a multiplication, which also gets the subnormals right.
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

template <class T, class W>
T narrow(W v) {
  return static_cast<T>(v);
}
template <>
Bf16 narrow<Bf16, float>(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};                       // NaN
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};  // nearest even
}
template <>
F16 narrow<F16, float>(float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return {static_cast<std::uint16_t>(sign | 0x7e00)};   // NaN
  if (magnitude >= 0x477ff000) return {static_cast<std::uint16_t>(sign | 0x7c00)};  // rounds to inf
  if (magnitude < 0x38800000) {  // subnormal: the addition aligns and rounds to nearest even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000))};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1;
  return {static_cast<std::uint16_t>(sign | ((magnitude + 0xc8000fff + odd) >> 13))};
}

// Loads and stores through memcpy: buffers may have any alignment, and the compiler still
// vectorizes.
template <class T, class F>
void combine(void* into, const void* from, std::size_t count, F&& f) {
  auto* a = static_cast<char*>(into);
  const auto* b = static_cast<const char*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    const auto result = f(widen(x), widen(y));
    x = narrow<T, std::remove_cv_t<decltype(result)>>(result);
    std::memcpy(a + i * sizeof(T), &x, sizeof(T));
  }
}

template <class T>
void reduce_typed(ReduceOp op, void* into, const void* from, std::size_t count) {
  using W = decltype(widen(T{}));
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      if constexpr (std::is_integral_v<W>) {  // wraps around instead of overflowing
        using U = std::make_unsigned_t<W>;
        combine<T>(into, from, count,
                   [](W x, W y) { return static_cast<W>(static_cast<U>(x) + static_cast<U>(y)); });
      } else {
        combine<T>(into, from, count, [](W x, W y) { return x + y; });
      }
      return;
    case ReduceOp::max:
      combine<T>(into, from, count, [](W x, W y) { return x < y ? y : x; });
      return;
    case ReduceOp::min:
      combine<T>(into, from, count, [](W x, W y) { return y < x ? y : x; });
      return;
  }
}

template <class T>
void divide_typed(void* data, std::size_t count, int ranks) {
  using W = decltype(widen(T{}));
  const W divisor = static_cast<W>(ranks);
  combine<T>(data, data, count, [divisor](W x, W) { return x / divisor; });
}

}  // namespace

void reduce(ReduceOp op, Type type, void* into, const void* from, std::size_t count) {
  switch (type) {
    case Type::f32:
      return reduce_typed<float>(op, into, from, count);
    case Type::f64:
      return reduce_typed<double>(op, into, from, count);
    case Type::f16:
      return reduce_typed<F16>(op, into, from, count);
    case Type::bf16:
      return reduce_typed<Bf16>(op, into, from, count);
    case Type::i32:
      return reduce_typed<std::int32_t>(op, into, from, count);
    case Type::i64:
      return reduce_typed<std::int64_t>(op, into, from, count);
    case Type::u8:
      return reduce_typed<std::uint8_t>(op, into, from, count);
  }
}

void divide(Type type, void* data, std::size_t count, int ranks) {
  switch (type) {
    case Type::f32:
      return divide_typed<float>(data, count, ranks);
    case Type::f64:
      return divide_typed<double>(data, count, ranks);
    case Type::f16:
      return divide_typed<F16>(data, count, ranks);
    case Type::bf16:
      return divide_typed<Bf16>(data, count, ranks);
    default:
      throw UsageError(std::string("an average of ") + name_of(type) + " is not defined; use sum");
  }
}

void reduce_all(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                std::size_t count, int divisor) {
  alignas(64) std::byte block[8192];
  const std::size_t size = size_of(type), step = sizeof block / size;
  for (std::size_t at = 0; at < count; at += step) {
    const std::size_t n = std::min(step, count - at);
    std::memcpy(block, static_cast<const std::byte*>(sources[0]) + at * size, n * size);
    for (std::size_t i = 1; i < sources.size(); ++i)
      reduce(op, type, block, static_cast<const std::byte*>(sources[i]) + at * size, n);
    if (divisor > 1) divide(type, block, n, divisor);
    std::memcpy(static_cast<std::byte*>(into) + at * size, block, n * size);
  }
}

}  // namespace convoy::comm
