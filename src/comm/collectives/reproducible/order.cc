#include "comm/collectives/reproducible/order.h"

#include <algorithm>
#include <limits>

// This unit is compiled once per instruction set; the best that the machine has is chosen at run
// time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/collectives/reproducible/order.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "comm/kernels/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace convoy::comm::HWY_NAMESPACE {
namespace {

// E: the floats, see vectors-inl.h.
template <class E>
struct Order {
  using D = hn::RebindToSigned<typename E::D>;
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  using Whole = Plain<T>;

  static constexpr T kLeast = std::numeric_limits<T>::min();
  static constexpr T kMost = std::numeric_limits<T>::max();
  static constexpr T kInfinity = sizeof(T) == 4 ? T{0x7f800000} : static_cast<T>(0x7ff0LL << 48);
  static constexpr T kNan = sizeof(T) == 4 ? T{0x7fc00000} : static_cast<T>(0x7ff8LL << 48);

  // The magnitude of negative numbers, counted down. Its own inverse.
  static HWY_INLINE V turned(V bits) {
    const D d;
    return hn::IfThenElse(hn::Lt(bits, hn::Zero(d)), hn::Xor(bits, hn::Set(d, kMost)), bits);
  }
  static HWY_INLINE V ordered(typename E::V x, bool most) {
    const D d;
    const V bits = hn::BitCast(d, x);
    const auto nan = hn::Gt(hn::And(bits, hn::Set(d, kMost)), hn::Set(d, kInfinity));
    return hn::IfThenElse(nan, hn::Set(d, most ? kMost : kLeast), turned(bits));
  }
  static HWY_INLINE typename E::V plain(V order) {
    const D d;
    const auto nan = hn::Or(hn::Eq(order, hn::Set(d, kMost)), hn::Eq(order, hn::Set(d, kLeast)));
    return hn::BitCast(typename E::D(), hn::IfThenElse(nan, hn::Set(d, kNan), turned(order)));
  }

  template <class From>
  static HWY_INLINE typename From::V read(const void* data, std::size_t at, std::size_t n) {
    const std::byte* from = static_cast<const std::byte*>(data) + at * From::kBytes;
    return n == hn::Lanes(D()) ? From::read(from) : read_part<From>(from, n * From::kBytes);
  }
  template <class To>
  static HWY_INLINE void write(typename To::V v, std::byte* data, std::size_t at, std::size_t n) {
    std::byte* to = data + at * To::kBytes;
    if (n == hn::Lanes(D()))
      To::write(v, to);
    else
      write_part<To>(v, to, n * To::kBytes);
  }

  static void run(OrderStep step, bool most, std::byte* into, const void* const* sources,
                  std::size_t source_count, std::size_t count) {
    const std::size_t lanes = hn::Lanes(D());
    for (std::size_t at = 0; at < count; at += lanes) {
      const std::size_t n = std::min(lanes, count - at);
      if (step == OrderStep::from_ordered) {
        write<E>(plain(read<Whole>(sources[0], at, n)), into, at, n);
        continue;
      }
      V result = ordered(read<E>(sources[0], at, n), most);
      for (std::size_t s = 1; s < source_count; ++s) {
        const V other = ordered(read<E>(sources[s], at, n), most);
        result = most ? hn::Max(result, other) : hn::Min(result, other);
      }
      if (step == OrderStep::to_ordered)
        write<Whole>(result, into, at, n);
      else
        write<E>(plain(result), into, at, n);
    }
  }
};

}  // namespace

void run_order(OrderStep step, Type type, ReduceOp op, std::byte* into, const void* const* sources,
               std::size_t source_count, std::size_t count) {
  const bool most = op == ReduceOp::max;
  if (type == Type::f64)
    return Order<Plain<double>>::run(step, most, into, sources, source_count, count);
  if (type == Type::f16) return Order<Float16>::run(step, most, into, sources, source_count, count);
  if (type == Type::bf16)
    return Order<Bfloat16>::run(step, most, into, sources, source_count, count);
  Order<Plain<float>>::run(step, most, into, sources, source_count, count);
}

}  // namespace convoy::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace convoy::comm {

HWY_EXPORT(run_order);

void run_order(OrderStep step, Type type, ReduceOp op, std::byte* into,
               std::span<const void* const> sources, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(run_order)
  (step, type, op, into, sources.data(), sources.size(), count);
}

}  // namespace convoy::comm
#endif  // HWY_ONCE
