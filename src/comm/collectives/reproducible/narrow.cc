#include "comm/collectives/reproducible/narrow.h"

#include <algorithm>
#include <bit>

#include "comm/kernels/rounding.h"

// This unit is compiled once per instruction set; the best that the machine has is chosen at run
// time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/collectives/reproducible/narrow.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "comm/kernels/vectors-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace convoy::comm::HWY_NAMESPACE {
namespace {

using DF = hn::ScalableTag<float>;
using DI = hn::ScalableTag<std::int32_t>;
using F = hn::Vec<DF>;
using I = hn::Vec<DI>;
using Special = hn::Mask<DI>;  // of lanes where some contribution is infinite or NaN

constexpr std::int32_t kSpecialField = 255;
constexpr std::int32_t kInfinity = 0x7f800000;
constexpr std::int32_t kNan = 0x7fc00000;
// What is added up in special lanes; counts of 64 at most.
constexpr std::int32_t kPositive = 1, kNegative = 1 << 8, kNans = 1 << 16;

// Elements as vectors-inl.h has them: fields of exponents, which are bytes.
struct Field {
  using D = DI;
  using V = I;
  using U8 = hn::Rebind<std::uint8_t, DI>;
  static constexpr std::size_t kBytes = 1;
  static HWY_INLINE V read(const std::byte* from) { return hn::PromoteTo(DI(), load(U8(), from)); }
  static HWY_INLINE void write(V v, std::byte* to) { store(U8(), hn::DemoteTo(U8(), v), to); }
};
using Whole = Plain<std::int32_t>;

template <class E>
HWY_INLINE typename E::V read(const void* data, std::size_t at, std::size_t n) {
  const std::byte* from = static_cast<const std::byte*>(data) + at * E::kBytes;
  return n == hn::Lanes(DI()) ? E::read(from) : read_part<E>(from, n * E::kBytes);
}
template <class E>
HWY_INLINE void write(typename E::V v, std::byte* data, std::size_t at, std::size_t n) {
  std::byte* to = data + at * E::kBytes;
  if (n == hn::Lanes(DI()))
    E::write(v, to);
  else
    write_part<E>(v, to, n * E::kBytes);
}

HWY_INLINE I field(F x) {
  return hn::And(hn::ShiftRight<23>(hn::BitCast(DI(), x)), hn::Set(DI(), kSpecialField));
}

// Subnormals have the unit of the smallest normal numbers.
HWY_INLINE I usable(I most) { return hn::Max(most, hn::Set(DI(), 1)); }

HWY_INLINE F power_of_two(I exponent) {
  return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(DI(), 127))));
}

// x in units of 2^(most - 126 - bits): a factor from 2^-98 to 2^155, in two steps. What these lose
// is far below a half.
HWY_INLINE I whole_of(F x, I most, int bits) {
  const I exponent = hn::Sub(hn::Set(DI(), bits + 126), most);
  const I half = hn::ShiftRight<1>(exponent);
  return hn::NearestInt(
      hn::Mul(hn::Mul(x, power_of_two(half)), power_of_two(hn::Sub(exponent, half))));
}

HWY_INLINE I count_special(F x) {
  const DI d;
  const I bits = hn::BitCast(d, x);
  const I magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
  const I infinity =
      hn::IfThenElse(hn::Lt(bits, hn::Zero(d)), hn::Set(d, kNegative), hn::Set(d, kPositive));
  const I counted =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, kInfinity)), hn::Set(d, kNans),
                     hn::IfThenElseZero(hn::Eq(magnitude, hn::Set(d, kInfinity)), infinity));
  return counted;
}

HWY_INLINE Special special_lanes(I most) { return hn::Eq(most, hn::Set(DI(), kSpecialField)); }

HWY_INLINE I converted(F x, I most, int bits) {
  const Special special = special_lanes(most);
  const I whole = whole_of(x, usable(most), bits);
  if (HWY_LIKELY(hn::AllFalse(DI(), special))) return whole;
  return hn::IfThenElse(special, count_special(x), whole);
}

template <class E>
HWY_INLINE I sum_of(const void* const* sources, std::size_t source_count, std::size_t at,
                    std::size_t n, I most, int bits) {
  const DI d;
  I sum = hn::Zero(d);
  if (HWY_LIKELY(hn::AllFalse(d, special_lanes(most)))) {
    const I scale = usable(most);
    for (std::size_t s = 0; s < source_count; ++s)
      sum = hn::Add(sum, whole_of(read<E>(sources[s], at, n), scale, bits));
    return sum;
  }
  for (std::size_t s = 0; s < source_count; ++s)
    sum = hn::Add(sum, converted(read<E>(sources[s], at, n), most, bits));
  return sum;
}

struct Quotient {
  bool whole = true;   // not divided
  double divisor = 1;  // but for powers of two,
  int exponent = 0;    // which only change the exponent: 2^(field + exponent) is the unit
};

// f64 holds the sums, and quotients to more places than could make a difference to f32, so this
// rounds once.
template <class H>
HWY_INLINE hn::Vec<hn::RebindToFloat<H>> rounded(H h, hn::Vec<H> sum, hn::Vec<H> most,
                                                 const Quotient& quotient) {
  const hn::Rebind<double, H> d;
  const hn::RebindToSigned<decltype(d)> wide;
  const auto exponent = hn::Add(most, hn::Set(h, 1023 + quotient.exponent));
  const auto unit = hn::BitCast(d, hn::ShiftLeft<52>(hn::PromoteTo(wide, exponent)));
  auto value = hn::PromoteTo(d, sum);
  if (quotient.divisor != 1) value = hn::Div(value, hn::Set(d, quotient.divisor));
  value = hn::Mul(value, unit);
  const hn::RebindToFloat<H> f;
#if HWY_TARGET == HWY_SCALAR  // whose DemoteTo makes the largest number of what is too large
  return hn::Set(f, static_cast<float>(hn::GetLane(value)));
#else
  return hn::DemoteTo(f, value);
#endif
}

HWY_INLINE F divided(I sum, I most, const Quotient& quotient) {
#if HWY_TARGET == HWY_SCALAR
  return rounded(DI(), sum, most, quotient);
#else
  const hn::Half<DI> h;
  return hn::Combine(DF(), rounded(h, hn::UpperHalf(h, sum), hn::UpperHalf(h, most), quotient),
                     rounded(h, hn::LowerHalf(h, sum), hn::LowerHalf(h, most), quotient));
#endif
}

// Rounded once, by the conversion: a sum has no places below those of f32's subnormals. The unit is
// 2^-155 to 2^98, in two steps.
HWY_INLINE F scaled(I sum, I most, int exponent) {
  const I unit = hn::Add(most, hn::Set(DI(), exponent));
  const I half = hn::ShiftRight<1>(unit);
  const F value = hn::ConvertTo(DF(), sum);
  return hn::Mul(hn::Mul(value, power_of_two(half)), power_of_two(hn::Sub(unit, half)));
}

HWY_INLINE F special_value(I sum) {
  const DI d;
  const I zero = hn::Zero(d);
  const auto positive = hn::Ne(hn::And(sum, hn::Set(d, kNegative - 1)), zero);
  const auto negative = hn::Ne(hn::And(sum, hn::Set(d, kNans - kNegative)), zero);
  const auto nan = hn::Or(hn::Gt(sum, hn::Set(d, kNans - 1)), hn::And(positive, negative));
  const I infinity =
      hn::IfThenElse(negative, hn::Set(d, kInfinity | INT32_MIN), hn::Set(d, kInfinity));
  return hn::BitCast(DF(), hn::IfThenElse(nan, hn::Set(d, kNan), infinity));
}

HWY_INLINE F value_of(I sum, I most, const Quotient& quotient) {
  const DI d;
  const F finite = quotient.whole ? scaled(sum, usable(most), quotient.exponent)
                                  : divided(sum, usable(most), quotient);
  const Special special = special_lanes(most);
  if (HWY_LIKELY(hn::AllFalse(d, special))) return finite;
  return hn::IfThenElse(hn::RebindMask(DF(), special), special_value(sum), finite);
}

struct Job {
  std::byte* into;
  const void* const* sources;  // data; or one of whole numbers
  std::size_t source_count;
  const std::byte* exponents;
  std::size_t count;
  int bits;
  Quotient quotient;
};

template <class E>
struct Finding {
  static HWY_INLINE void run(const Job& job, std::size_t at, std::size_t n) {
    write<Field>(field(read<E>(job.sources[0], at, n)), job.into, at, n);
  }
};

template <class E>
struct ToWhole {
  static HWY_INLINE void run(const Job& job, std::size_t at, std::size_t n) {
    const F x = read<E>(job.sources[0], at, n);
    write<Whole>(converted(x, read<Field>(job.exponents, at, n), job.bits), job.into, at, n);
  }
};

template <class E>
struct FromWhole {
  static HWY_INLINE void run(const Job& job, std::size_t at, std::size_t n) {
    const I sum = read<Whole>(job.sources[0], at, n);
    write<E>(value_of(sum, read<Field>(job.exponents, at, n), job.quotient), job.into, at, n);
  }
};

template <class E>
struct Adding {
  static HWY_INLINE void run(const Job& job, std::size_t at, std::size_t n) {
    I most = hn::Zero(DI());
    for (std::size_t s = 0; s < job.source_count; ++s)
      most = hn::Max(most, field(read<E>(job.sources[s], at, n)));
    const I sum = sum_of<E>(job.sources, job.source_count, at, n, most, job.bits);
    write<E>(value_of(sum, most, job.quotient), job.into, at, n);
  }
};

template <class Step>
void for_all(const Job& job) {
  const std::size_t lanes = hn::Lanes(DI());
  std::size_t at = 0;
  for (; at + lanes <= job.count; at += lanes) Step::run(job, at, lanes);
  if (at < job.count) Step::run(job, at, job.count - at);
}

template <template <class> class Step>
void run(Type type, const Job& job) {
  if (type == Type::f16) return for_all<Step<Float16>>(job);
  if (type == Type::bf16) return for_all<Step<Bfloat16>>(job);
  for_all<Step<Plain<float>>>(job);
}

}  // namespace

void run_narrow(NarrowStep step, const Grid& grid, std::byte* into, const void* const* sources,
                std::size_t source_count, const std::byte* exponents, std::size_t count,
                int divisor) {
  Job job{into, sources, source_count, exponents, count, grid.bits, {}};
  job.quotient.whole = divisor == 1;
  job.quotient.exponent = -126 - grid.bits;
  if (std::has_single_bit(static_cast<unsigned>(divisor)))
    job.quotient.exponent -= std::countr_zero(static_cast<unsigned>(divisor));
  else
    job.quotient.divisor = divisor;
  switch (step) {
    case NarrowStep::find_exponents:
      return run<Finding>(grid.type, job);
    case NarrowStep::to_whole:
      return run<ToWhole>(grid.type, job);
    case NarrowStep::from_whole:
      return run<FromWhole>(grid.type, job);
    case NarrowStep::add:
      return run<Adding>(grid.type, job);
  }
}

}  // namespace convoy::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace convoy::comm {

HWY_EXPORT(run_narrow);

void run_narrow(NarrowStep step, const Grid& grid, std::byte* into,
                std::span<const void* const> sources, const std::byte* exponents, std::size_t count,
                int divisor) {
  const UsualRounding rounding;
  HWY_DYNAMIC_DISPATCH(run_narrow)
  (step, grid, into, sources.data(), sources.size(), exponents, count, divisor);
}

}  // namespace convoy::comm
#endif  // HWY_ONCE
