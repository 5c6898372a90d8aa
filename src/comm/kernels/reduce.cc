#include "comm/kernels/reduce.h"

#include <algorithm>
#include <array>
#include <string>

#include "comm/kernels/rounding.h"
#include "convoy/base/error.h"

// This unit is compiled once per instruction set; the best that the machine has is chosen at run
// time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/kernels/reduce.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "comm/kernels/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace convoy::comm::HWY_NAMESPACE {

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);  // of integers: wraps around
  }
};
// Of floats, NaN and all, exactly a < b ? b : a; hn::Max differs from target to target there.
struct Max {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Lt(a, b), b, a);
  }
};
struct Min {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Lt(b, a), b, a);
  }
};

template <class D, class V>
HWY_INLINE V divided(D d, V v, int divisor) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    if (divisor > 1) return hn::Div(v, hn::Set(d, static_cast<hn::TFromD<D>>(divisor)));
  }
  return v;
}

struct Combination {
  std::byte* into;
  const void* const* sources;
  std::size_t source_count;
  std::size_t count;
  int divisor;

  HWY_INLINE const std::byte* source(std::size_t i) const {
    return static_cast<const std::byte*>(sources[i]);
  }
};

// E: the elements, see vectors-inl.h.
template <class E, class Op>
void combine(const Combination& c, Op op) {
  const typename E::D d;
  const std::size_t step = hn::Lanes(d) * E::kBytes;
  const std::size_t bytes = c.count * E::kBytes;
  std::size_t at = 0;
  // All of an element is done before it is stored, so `into` may be a source. Memory likes short
  // strides best; with many sources, the change from one to the next has to be paid for by more
  // vectors that stay in registers.
  if (c.source_count == 2) {
    for (; at + step <= bytes; at += step) {
      const auto v = op(E::read(c.source(0) + at), E::read(c.source(1) + at));
      E::write(divided(d, v, c.divisor), c.into + at);
    }
  }
  for (; at + 4 * step <= bytes; at += 4 * step) {
    const std::byte* from = c.source(0) + at;
    auto v0 = E::read(from), v1 = E::read(from + step);
    auto v2 = E::read(from + 2 * step), v3 = E::read(from + 3 * step);
    for (std::size_t s = 1; s < c.source_count; ++s) {
      from = c.source(s) + at;
      v0 = op(v0, E::read(from));
      v1 = op(v1, E::read(from + step));
      v2 = op(v2, E::read(from + 2 * step));
      v3 = op(v3, E::read(from + 3 * step));
    }
    E::write(divided(d, v0, c.divisor), c.into + at);
    E::write(divided(d, v1, c.divisor), c.into + at + step);
    E::write(divided(d, v2, c.divisor), c.into + at + 2 * step);
    E::write(divided(d, v3, c.divisor), c.into + at + 3 * step);
  }
  for (; at < bytes; at += step) {
    const std::size_t part = std::min(step, bytes - at);
    auto v = read_part<E>(c.source(0) + at, part);
    for (std::size_t s = 1; s < c.source_count; ++s)
      v = op(v, read_part<E>(c.source(s) + at, part));
    write_part<E>(divided(d, v, c.divisor), c.into + at, part);
  }
}

template <class E>
void combine_by(ReduceOp op, const Combination& c) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return combine<E>(c, Sum());
    case ReduceOp::max:
      return combine<E>(c, Max());
    case ReduceOp::min:
      return combine<E>(c, Min());
  }
}

void combine_typed(ReduceOp op, Type type, void* into, const void* const* sources,
                   std::size_t source_count, std::size_t count, int divisor) {
  const Combination c{static_cast<std::byte*>(into), sources, source_count, count, divisor};
  switch (type) {
    case Type::f32:
      return combine_by<Plain<float>>(op, c);
    case Type::f64:
      return combine_by<Plain<double>>(op, c);
    case Type::f16:
      return combine_by<Float16>(op, c);
    case Type::bf16:
      return combine_by<Bfloat16>(op, c);
    case Type::i32:
      return combine_by<Plain<std::int32_t>>(op, c);
    case Type::i64:
      return combine_by<Plain<std::int64_t>>(op, c);
    case Type::u8:
      return combine_by<Plain<std::uint8_t>>(op, c);
  }
}

}  // namespace convoy::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace convoy::comm {

HWY_EXPORT(combine_typed);

namespace {

void check_average(Type type) {
  if (!is_floating(type))
    throw UsageError(std::string("an average of ") + name_of(type) + " is not defined; use sum");
}

}  // namespace

void reduce(ReduceOp op, Type type, void* into, const void* from, std::size_t count) {
  const std::array<const void*, 2> sources{into, from};
  reduce_all(op, type, into, sources, count);
}

void divide(Type type, void* data, std::size_t count, int ranks) {
  check_average(type);
  if (ranks == 1) return;  // bits of NaNs stay as they are
  const std::array<const void*, 1> sources{data};
  reduce_all(ReduceOp::average, type, data, sources, count, ranks);
}

void reduce_all(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                std::size_t count, int divisor) {
  if (divisor > 1) check_average(type);
  const UsualRounding rounding;
  HWY_DYNAMIC_DISPATCH(combine_typed)
  (op, type, into, sources.data(), sources.size(), count, divisor);
}

}  // namespace convoy::comm
#endif  // HWY_ONCE
