// The sums against plain scalar programs, for every instruction set that this machine has.
#include "comm/kernels/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "tests/comm/targets.h"

namespace convoy::comm {
namespace {

class Kernels : public OnEachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(targets()), name_of_target);

// --- 16-bit floats, by their definition ---

struct Half {
  int mantissa_bits;
  int least_exponent;  // of normal numbers; the largest is 1 - least_exponent
  int special() const { return 3 - 2 * least_exponent; }  // the field of infinity and NaN
};
constexpr Half kF16{10, -14}, kBf16{7, -126};
const Half& half_of(Type type) { return type == Type::f16 ? kF16 : kBf16; }

float value_of(const Half& half, std::uint16_t bits) {
  const int field = (bits & 0x7fff) >> half.mantissa_bits;
  const int mantissa = bits & ((1 << half.mantissa_bits) - 1);
  const float sign = (bits & 0x8000) != 0 ? -1.F : 1.F;
  if (field == half.special())
    return sign * (mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : INFINITY);
  const int unit = half.least_exponent - half.mantissa_bits;
  if (field == 0) return sign * std::ldexp(static_cast<float>(mantissa), unit);
  return sign *
         std::ldexp(static_cast<float>(mantissa + (1 << half.mantissa_bits)), field - 1 + unit);
}

// To the nearest, ties to even; not for NaN.
std::uint16_t bits_of(const Half& half, float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int one = 1 << half.mantissa_bits;
  const int infinity = half.special() * one;
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  if (value == 0) return static_cast<std::uint16_t>(sign);
  const int exponent = std::max(std::ilogb(value), half.least_exponent);
  const double units = std::nearbyint(std::ldexp(std::fabs(value), half.mantissa_bits - exponent));
  const int bits = (exponent - half.least_exponent) * one + static_cast<int>(units);
  return static_cast<std::uint16_t>(sign | std::min(bits, infinity));
}

// --- One element of any type as a plain program combines it ---

template <class T>
T load_at(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
T combined(ReduceOp op, T a, T b) {
  if (op == ReduceOp::max) return a < b ? b : a;
  if (op == ReduceOp::min) return b < a ? b : a;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

// True if the element that a reduction has left is right.
template <class T>
bool right(ReduceOp op, const std::vector<const std::byte*>& sources, std::size_t i, int divisor,
           const std::byte* result) {
  T want = load_at<T>(sources[0], i);
  for (std::size_t s = 1; s < sources.size(); ++s)
    want = combined(op, want, load_at<T>(sources[s], i));
  const T got = load_at<T>(result, i);
  if constexpr (std::is_floating_point_v<T>) {
    if (divisor > 1) want /= static_cast<T>(divisor);
    if (std::isnan(want)) return std::isnan(got);
  }
  return std::memcmp(&want, &got, sizeof want) == 0;  // tells 0 from -0
}

bool right_half(const Half& half, ReduceOp op, const std::vector<const std::byte*>& sources,
                std::size_t i, int divisor, const std::byte* result) {
  float want = value_of(half, load_at<std::uint16_t>(sources[0], i));
  for (std::size_t s = 1; s < sources.size(); ++s)
    want = combined(op, want, value_of(half, load_at<std::uint16_t>(sources[s], i)));
  if (divisor > 1) want /= static_cast<float>(divisor);
  const auto got = load_at<std::uint16_t>(result, i);
  return std::isnan(want) ? std::isnan(value_of(half, got)) : got == bits_of(half, want);
}

bool right(Type type, ReduceOp op, const std::vector<const std::byte*>& sources, std::size_t i,
           int divisor, const std::byte* result) {
  switch (type) {
    case Type::f32:
      return right<float>(op, sources, i, divisor, result);
    case Type::f64:
      return right<double>(op, sources, i, divisor, result);
    case Type::i32:
      return right<std::int32_t>(op, sources, i, divisor, result);
    case Type::i64:
      return right<std::int64_t>(op, sources, i, divisor, result);
    case Type::u8:
      return right<std::uint8_t>(op, sources, i, divisor, result);
    default:
      return right_half(half_of(type), op, sources, i, divisor, result);
  }
}

// Random bits, and now and then a value where something changes.
void fill(Type type, std::byte* data, std::size_t count, RandomStream& random,
          bool with_special = true) {
  static const std::vector<std::uint64_t> kF32{
      0,          0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
      0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, 0x3f800000};
  static const std::vector<std::uint64_t> kF64{0,
                                               1ULL << 63,
                                               1,
                                               (1ULL << 63) | 1,
                                               (1ULL << 52) - 1,
                                               1ULL << 52,
                                               0x7fefULL << 48,
                                               0x7ff0ULL << 48,
                                               0xfff0ULL << 48,
                                               0x7ff8ULL << 48,
                                               (0x7ff0ULL << 48) | 1,
                                               0x3ff0ULL << 48};
  static const std::vector<std::uint64_t> kWhole{
      0, 1, ~0ULL, 1ULL << 63, (1ULL << 63) - 1, 1ULL << 31, (1ULL << 31) - 1, 0x7f, 0x80};
  const auto& special = type == Type::f32 ? kF32 : type == Type::f64 ? kF64 : kWhole;
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = (random.below(1ULL << 32) << 32) | random.below(1ULL << 32);
    // Like sizes, so that sums round: random exponents would leave the larger of two.
    const std::uint64_t kind = random.below(8);
    if (type == Type::f32 && kind < 5) bits = (bits & 0x81ffffff) | 0x3e000000;
    if (type == Type::f64 && kind < 5) bits = (bits & ~(0x7ff0ULL << 48)) | (0x3ff0ULL << 48);
    if (kind == 7 && with_special) bits = special[random.below(special.size())];
    std::memcpy(data + i * size, &bits, size);  // little-endian
  }
}

// One reduction of `n` sources at odd addresses. `into` is source number `in_place`, or apart.
void check_one(Type type, ReduceOp op, std::size_t n, std::size_t count, std::size_t shift,
               int in_place, int divisor, RandomStream& random) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::vector<std::byte>> memory(n, std::vector<std::byte>(bytes + 2 * shift));
  for (std::size_t s = 0; s < n; ++s) fill(type, memory[s].data() + shift * (s % 2), count, random);
  const auto before = memory;
  std::vector<std::byte> apart(bytes + 80, std::byte{0xa5});
  std::byte* into = apart.data() + 40 - shift;
  std::vector<const void*> sources(n);
  std::vector<const std::byte*> originals(n);
  for (std::size_t s = 0; s < n; ++s) {
    sources[s] = memory[s].data() + shift * (s % 2);
    originals[s] = before[s].data() + shift * (s % 2);
  }
  if (in_place >= 0)
    into = static_cast<std::byte*>(const_cast<void*>(sources[static_cast<std::size_t>(in_place)]));
  reduce_all(op, type, into, sources, count, divisor);
  const std::string what = std::string(name_of(type)) + ", " + name_of(op) + ", " +
                           std::to_string(n) + " sources, " + std::to_string(count) +
                           " elements, in place " + std::to_string(in_place) + ", divisor " +
                           std::to_string(divisor);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_TRUE(right(type, op, originals, i, divisor, into)) << what << ", element " << i;
  for (std::size_t s = 0; s < n; ++s) {
    if (static_cast<int>(s) != in_place) {
      ASSERT_EQ(memory[s], before[s]) << what;
    }
  }
  if (in_place < 0) {  // and nothing beside
    const auto untouched = [](std::byte b) { return b == std::byte{0xa5}; };
    ASSERT_TRUE(std::all_of(apart.data(), into, untouched)) << what;
    ASSERT_TRUE(std::all_of(into + bytes, apart.data() + apart.size(), untouched)) << what;
  }
}

constexpr Type kTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16,
                           Type::i32, Type::i64, Type::u8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min};

TEST_P(Kernels, EveryTypeOperationCountAndPlace) {
  EXPECT_EQ(hwy::SupportedTargets(), GetParam());
  RandomStream random(5, 1);
  for (Type type : kTypes) {
    for (ReduceOp op : kOps) {
      for (std::size_t count : {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 63, 64, 65, 127, 257, 1023}) {
        const std::size_t n = 1 + random.below(9);
        const int in_place = static_cast<int>(random.below(n + 1)) - 1;
        const bool divides = op == ReduceOp::average && is_floating(type);
        check_one(type, op, n, count, random.below(4), in_place, divides ? 3 : 1, random);
        check_one(type, op, 2, count, 1, 0, 1, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Kernels, EqualsAChainOfSums) {
  RandomStream random(5, 2);
  for (Type type : {Type::f32, Type::f64, Type::i32, Type::i64, Type::u8}) {
    constexpr std::size_t kCount = 301, kSources = 5;
    const std::size_t bytes = kCount * size_of(type);
    std::vector<std::vector<std::byte>> memory(kSources, std::vector<std::byte>(bytes));
    std::vector<const void*> sources;
    for (auto& source : memory) {
      fill(type, source.data(), kCount, random, false);  // not even bits tell one NaN from another
      sources.push_back(source.data());
    }
    std::vector<std::byte> chain = memory[0], all(bytes);
    for (std::size_t s = 1; s < kSources; ++s)
      reduce(ReduceOp::sum, type, chain.data(), memory[s].data(), kCount);
    reduce_all(ReduceOp::sum, type, all.data(), sources, kCount);
    EXPECT_EQ(chain, all) << name_of(type);
    if (!is_floating(type)) continue;
    divide(type, chain.data(), kCount, 7);
    reduce_all(ReduceOp::average, type, all.data(), sources, kCount, 7);
    EXPECT_EQ(chain, all) << name_of(type);
  }
}

std::vector<std::uint16_t> every_half() {
  std::vector<std::uint16_t> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  return values;
}

// Through f32 and back: the same value, and NaN quiet with what its payload had.
TEST_P(Kernels, EveryHalfSurvivesConversion) {
  for (Type type : {Type::f16, Type::bf16}) {
    const std::vector<std::uint16_t> values = every_half();
    std::vector<std::uint16_t> result(values.size());
    const std::array<const void*, 1> sources{values.data()};
    reduce_all(ReduceOp::sum, type, result.data(), sources, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool nan = std::isnan(value_of(half_of(type), values[i]));
      const int quiet = nan ? 1 << (half_of(type).mantissa_bits - 1) : 0;
      ASSERT_EQ(result[i], values[i] | quiet) << name_of(type);
    }
  }
}

TEST_P(Kernels, EveryHalfPlusManyOthersIsRoundedToTheNearest) {
  RandomStream random(5, 3);
  for (Type type : {Type::f16, Type::bf16}) {
    const Half& half = half_of(type);
    std::vector<std::uint16_t> others{0,      1,      0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
                                      0x3c00, 0xbc01, 0x1400, 0x3f80, 0x7f7f, 0x0080, 0x7c00};
    while (others.size() < 30) others.push_back(static_cast<std::uint16_t>(random.below(65536)));
    const std::vector<std::uint16_t> values = every_half();
    for (const std::uint16_t other : others) {
      std::vector<std::uint16_t> sum = values;
      const std::vector<std::uint16_t> second(values.size(), other);
      reduce(ReduceOp::sum, type, sum.data(), second.data(), sum.size());
      const float b = value_of(half, other);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float want = value_of(half, values[i]) + b;
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(value_of(half, sum[i]))) << values[i] << " + " << other;
        } else {
          ASSERT_EQ(sum[i], bits_of(half, want)) << values[i] << " + " << other;
        }
      }
    }
  }
}

TEST_P(Kernels, HalvesAreRoundedOnceForAllSources) {
  // 2048 + 1 + 1 + 1 + 1: each sum by itself rounds back to 2048 in f16.
  const std::uint16_t big = 0x6800, one = 0x3c00;
  std::uint16_t result = 0;
  const std::array<const void*, 5> sources{&big, &one, &one, &one, &one};
  reduce_all(ReduceOp::sum, Type::f16, &result, sources, 1);
  EXPECT_EQ(result, 0x6802);  // 2052
  // The divisor comes before the rounding, too: 65504 + 65504 is beyond what f16 holds.
  const std::uint16_t largest = 0x7bff;
  const std::array<const void*, 2> two{&largest, &largest};
  reduce_all(ReduceOp::average, Type::f16, &result, two, 1, 2);
  EXPECT_EQ(result, largest);
}

TEST(KernelsMistakes, IntegersHaveNoAverage) {
  std::int32_t value = 4;
  const std::array<const void*, 1> sources{&value};
  EXPECT_THROW(divide(Type::i32, &value, 1, 2), UsageError);
  EXPECT_THROW(divide(Type::i32, &value, 1, 1), UsageError);
  EXPECT_THROW(reduce_all(ReduceOp::sum, Type::i32, &value, sources, 1, 2), UsageError);
  EXPECT_EQ(value, 4);
}

}  // namespace
}  // namespace convoy::comm
