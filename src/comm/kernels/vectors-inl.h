// Loads, stores and conversions of element types, for one Highway target at a time.
//
// Included once per target by units that use foreach_target.h, hence the guard that toggles.
#if defined(CONVOY_COMM_REDUCE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVOY_COMM_REDUCE_VECTORS_INL_H_
#undef CONVOY_COMM_REDUCE_VECTORS_INL_H_
#else
#define CONVOY_COMM_REDUCE_VECTORS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace convoy::comm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Any alignment: what is loaded are bytes.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR  // has no vectors of bytes
  hn::TFromD<D> value;
  std::memcpy(&value, from, sizeof value);
  return hn::Set(d, value);
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> value = hn::GetLane(v);
  std::memcpy(to, &value, sizeof value);
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, reinterpret_cast<std::uint8_t*>(to));
#endif
}

// How elements lie in memory, and the vectors (of D) that they are computed with. A type whose
// elements are computed with as they are:
template <class T>
struct Plain {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::size_t kBytes = sizeof(T);
  static HWY_INLINE V read(const std::byte* from) { return load(D(), from); }
  static HWY_INLINE void write(V v, std::byte* to) { store(D(), v, to); }
};

// 16-bit floats, as f32. Rounding is to the nearest, ties to even; NaN becomes quiet and keeps the
// upper bits of its payload. All targets give the same bits.
struct Bfloat16 {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using U32 = hn::RebindToUnsigned<D>;
  using I32 = hn::RebindToSigned<D>;
  using U16 = hn::Rebind<std::uint16_t, D>;
  static constexpr std::size_t kBytes = 2;

  static HWY_INLINE V read(const std::byte* from) {
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), load(U16(), from))));
  }
  static HWY_INLINE void write(V v, std::byte* to) {
    const U32 u;
    const auto bits = hn::BitCast(u, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
    const auto rounded = hn::Add(bits, hn::Add(hn::Set(u, 0x7fff), odd));
    const auto quiet = hn::Or(bits, hn::Set(u, 0x400000));
    const auto upper =
        hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(v)), quiet, rounded));
    store(U16(), hn::DemoteTo(U16(), hn::BitCast(I32(), upper)), to);
  }
};

struct Float16 {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  using U32 = hn::RebindToUnsigned<D>;
  using I32 = hn::RebindToSigned<D>;
  using U16 = hn::Rebind<std::uint16_t, D>;
  static constexpr std::size_t kBytes = 2;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // F16C or AVX-512
  using F16 = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE V read(const std::byte* from) {
    return hn::PromoteTo(D(), hn::BitCast(F16(), load(U16(), from)));
  }
  static HWY_INLINE void write(V v, std::byte* to) {
    store(U16(), hn::BitCast(U16(), hn::DemoteTo(F16(), v)), to);
  }
#else
  // No step takes or makes a subnormal f32, so that flushing these to zero changes nothing.
  static HWY_INLINE V read(const std::byte* from) {
    const I32 i;
    const auto bits = hn::BitCast(i, hn::PromoteTo(U32(), load(U16(), from)));
    const auto rest = hn::And(bits, hn::Set(i, 0x7fff));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, rest));
    const auto moved = hn::ShiftLeft<13>(rest);
    const auto normal = hn::Add(moved, hn::Set(i, (127 - 15) << 23));
    const auto special = hn::Or(moved, hn::Set(i, 0x7f800000));  // infinity and NaN
    const auto subnormal =
        hn::BitCast(i, hn::Mul(hn::ConvertTo(D(), rest), hn::Set(D(), 0x1p-24F)));
    auto result = hn::IfThenElse(hn::Lt(rest, hn::Set(i, 0x400)), subnormal, normal);
    result = hn::IfThenElse(hn::Gt(rest, hn::Set(i, 0x7bff)), special, result);
    return hn::BitCast(D(), hn::Or(result, sign));
  }
  static HWY_INLINE void write(V v, std::byte* to) {
    const I32 i;
    const auto bits = hn::BitCast(i, v);
    const auto magnitude = hn::And(bits, hn::Set(i, 0x7fffffff));
    const auto sign =
        hn::BitCast(i, hn::ShiftRight<16>(hn::BitCast(U32(), hn::Xor(bits, magnitude))));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(i, 1));
    const auto normal =
        hn::ShiftRight<13>(hn::Add(magnitude, hn::Sub(odd, hn::Set(i, 0x38000000 - 0xfff))));
    // The addition of a number whose last place is that of subnormals aligns and rounds.
    const auto subnormal =
        hn::Sub(hn::BitCast(i, hn::Add(hn::BitCast(D(), magnitude), hn::Set(D(), 0.5F))),
                hn::Set(i, 0x3f000000));
    const auto nan =
        hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(i, 0x3ff)), hn::Set(i, 0x7e00));
    auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(i, 0x38800000)), subnormal, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i, 0x477fefff)), hn::Set(i, 0x7c00), result);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i, 0x7f800000)), nan, result);
    store(U16(), hn::DemoteTo(U16(), hn::Or(result, sign)), to);
  }
#endif
};

// The first `bytes` of a vector's memory, the rest zero.
template <class E>
HWY_INLINE typename E::V read_part(const std::byte* from, std::size_t bytes) {
  alignas(16) std::byte whole[HWY_MAX_BYTES] = {};
  std::memcpy(whole, from, bytes);
  return E::read(whole);
}
template <class E>
HWY_INLINE void write_part(typename E::V v, std::byte* to, std::size_t bytes) {
  alignas(16) std::byte whole[HWY_MAX_BYTES];
  E::write(v, whole);
  std::memcpy(to, whole, bytes);
}

}  // namespace convoy::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggles
