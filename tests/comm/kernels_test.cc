// The sums of 16-bit floats against conversions done the slow way, over all 65,536 values.
#include "comm/reduce/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace convoy::comm {
namespace {

double f16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The nearest 16-bit value, ties to even, found by search over neighbors of an ordered encoding.
template <class Value>
void check_nearest(std::uint16_t result, double exact, double largest, Value value) {
  if (std::isnan(exact)) {
    EXPECT_TRUE(std::isnan(value(result)));
    return;
  }
  const double got = value(result);
  if (std::isinf(got)) {
    EXPECT_GE(std::fabs(exact), largest);
    EXPECT_EQ(std::signbit(got), std::signbit(exact));
    return;
  }
  for (int step : {-1, 1}) {
    const auto neighbor = static_cast<std::uint16_t>(result + step);
    const double other = value(neighbor);
    if (!std::isfinite(other) || std::signbit(other) != std::signbit(got)) continue;
    const double mine = std::fabs(got - exact), theirs = std::fabs(other - exact);
    EXPECT_LE(mine, theirs) << exact;
    if (mine == theirs) {
      EXPECT_EQ(result & 1, 0) << "ties go to even: " << exact;
    }
  }
}

TEST(Kernels, F16AddsEveryValue) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto a = static_cast<std::uint16_t>(bits);
    for (std::uint16_t b : {0x0000, 0x0001, 0x3c00, 0x03ff, 0xbc01, 0x7bff, 0x1400}) {
      std::uint16_t into = a;
      reduce(ReduceOp::sum, Type::f16, &into, &b, 1);
      const double exact = static_cast<float>(f16_value(a)) + static_cast<float>(f16_value(b));
      check_nearest(into, exact, 65519.99, f16_value);
    }
  }
}

TEST(Kernels, Bf16AddsEveryValue) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto a = static_cast<std::uint16_t>(bits);
    for (std::uint16_t b : {0x0000, 0x3f80, 0xbf81, 0x0001, 0x4123}) {
      std::uint16_t into = a;
      reduce(ReduceOp::sum, Type::bf16, &into, &b, 1);
      const double exact = static_cast<float>(bf16_value(a)) + static_cast<float>(bf16_value(b));
      check_nearest(into, exact, 3.39e38, bf16_value);
    }
  }
}

TEST(Kernels, NanAndInfinityTravel) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  std::vector<float> a{1, nan, inf, inf}, b{nan, 1, 1, -inf};
  reduce(ReduceOp::sum, Type::f32, a.data(), b.data(), a.size());
  EXPECT_TRUE(std::isnan(a[0]) && std::isnan(a[1]) && std::isnan(a[3]));
  EXPECT_EQ(a[2], inf);
}

TEST(Kernels, AnyAlignment) {
  std::vector<char> raw_a(401), raw_b(401);
  for (std::size_t shift : {0, 1}) {
    std::vector<float> a(100), b(100);
    for (int i = 0; i < 100; ++i)
      a[static_cast<std::size_t>(i)] = static_cast<float>(i), b[static_cast<std::size_t>(i)] = 2;
    std::memcpy(raw_a.data() + shift, a.data(), 400);
    std::memcpy(raw_b.data() + shift, b.data(), 400);
    reduce(ReduceOp::sum, Type::f32, raw_a.data() + shift, raw_b.data() + shift, 100);
    std::memcpy(a.data(), raw_a.data() + shift, 400);
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(a[static_cast<std::size_t>(i)], static_cast<float>(i + 2));
  }
}

}  // namespace
}  // namespace convoy::comm
