// Contributions for reproducible reductions, and their exact sums.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "comm/collectives/reproducible/kernels.h"
#include "convoy/base/random.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

constexpr Type kFloatingTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16};

// How a floating type is made.
struct FloatFormat {
  int bytes;
  int mantissa;
  int least_exponent;  // of normal numbers; the largest is 1 - this
};
inline FloatFormat format_of(Type type) {
  if (type == Type::f64) return {8, 52, -1022};
  if (type == Type::f32) return {4, 23, -126};
  return type == Type::f16 ? FloatFormat{2, 10, -14} : FloatFormat{2, 7, -126};
}

inline std::uint64_t bits_at(Type type, const void* data, std::size_t i) {
  std::uint64_t bits = 0;  // little-endian
  std::memcpy(&bits, static_cast<const char*>(data) + i * size_of(type), size_of(type));
  return bits;
}
inline void set_bits(Type type, void* data, std::size_t i, std::uint64_t bits) {
  std::memcpy(static_cast<char*>(data) + i * size_of(type), &bits, size_of(type));
}

inline double value_of(Type type, std::uint64_t bits) {
  const FloatFormat f = format_of(type);
  const int sign_at = 8 * f.bytes - 1;
  const int special = 3 - 2 * f.least_exponent;
  const auto field = static_cast<int>(bits >> f.mantissa) & special;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << f.mantissa) - 1);
  double value = 0;
  if (field == special) {
    value = fraction == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  } else {
    const std::uint64_t one = field == 0 ? 0 : std::uint64_t{1} << f.mantissa;
    value = std::ldexp(static_cast<double>(fraction | one),
                       std::max(field, 1) - 1 + f.least_exponent - f.mantissa);
  }
  return ((bits >> sign_at) & 1) != 0 ? -value : value;
}

// The bits of a finite number of the type: sign, mantissa, and the exponent of 1.xxx, where the
// type has it.
inline std::uint64_t make_bits(Type type, bool negative, std::uint64_t mantissa, int exponent) {
  const FloatFormat f = format_of(type);
  const std::uint64_t fraction = mantissa & ((std::uint64_t{1} << f.mantissa) - 1);
  const int field = std::clamp(exponent - f.least_exponent + 1, 0, 2 - 2 * f.least_exponent);
  return (std::uint64_t{negative} << (8 * f.bytes - 1)) |
         (static_cast<std::uint64_t>(field) << f.mantissa) | fraction;
}

// What contribution `who` has as element i, of every kind by turns.
constexpr std::size_t kKinds = 9;

inline std::uint64_t contribution_bits(Type type, std::size_t who, std::size_t i) {
  RandomStream random(99, who, i);
  const FloatFormat f = format_of(type);
  const int most = 1 - f.least_exponent;
  const std::uint64_t mantissa = random();
  const bool negative = random.below(2) == 0;
  const auto exponent = [&](int least, int largest) {
    return least + static_cast<int>(random.below(static_cast<std::uint64_t>(largest - least + 1)));
  };
  const std::uint64_t sign = std::uint64_t{1} << (8 * f.bytes - 1);
  const std::uint64_t infinity = make_bits(type, false, 0, most) + (std::uint64_t{1} << f.mantissa);
  switch (i % kKinds) {
    case 0:  // as gradients are
      return make_bits(type, negative, mantissa, exponent(-8, -3));
    case 1:  // everything that exists, but infinity and NaN
      return make_bits(type, negative, mantissa, exponent(f.least_exponent - 1, most));
    case 2:  // far from each other
      return make_bits(type, negative, mantissa, who % 2 == 0 ? most - 4 : f.least_exponent + 3);
    case 3:  // subnormal, or hardly more
      return make_bits(type, negative, mantissa, exponent(f.least_exponent - 1, f.least_exponent));
    case 4: {  // pairs that are the other's negative but for the last places
      RandomStream pair(98, who / 2, i);
      const std::uint64_t bits = make_bits(type, who % 2 == 0, pair(), 2);
      return who % 3 == 0 ? bits ^ 1 : bits;
    }
    case 5:  // sums that overflow, and such that don't
      return make_bits(type, i % 2 == 0 ? who % 2 == 0 : false, mantissa, most);
    case 6:  // zeros of both signs
      return negative ? sign : 0;
    case 7:  // infinity, of one or both signs, among others
      if (random.below(4) != 0) return make_bits(type, negative, mantissa, 0);
      return infinity | (i % 2 == 0 && negative ? sign : 0);
    default:  // NaN with payloads, infinity, zeros
      if (random.below(3) != 0) return make_bits(type, negative, mantissa, 0);
      return infinity | (negative ? sign : 0) | (random.below(2) == 0 ? 0 : mantissa % 7);
  }
}

// At any address: memory of `count` elements begins one byte into the vector.
inline std::vector<char> contribution_of(Type type, std::size_t who, std::size_t count) {
  std::vector<char> memory(count * size_of(type) + 1);
  for (std::size_t i = 0; i < count; ++i)
    set_bits(type, memory.data() + 1, i, contribution_bits(type, who, i));
  return memory;
}

// The reduction of contributions 0 to n-1 in one call, which other tests have found right.
inline std::vector<char> reproducible_result(Type type, ReduceOp op, std::size_t n,
                                             std::size_t count) {
  std::vector<std::vector<char>> all;
  std::vector<const void*> sources;
  for (std::size_t who = 0; who < n; ++who) {
    all.push_back(contribution_of(type, who, count));
    sources.push_back(all.back().data() + 1);
  }
  std::vector<char> result(count * size_of(type));
  reduce_reproducibly(op, type, result.data(), sources, count,
                      op == ReduceOp::average ? static_cast<int>(n) : 1);
  return result;
}

// Not rounded: a sum of doubles of which none overlaps another (Shewchuk 1997, grow-expansion).
class ExactSum {
 public:
  void add(double x) {
    std::vector<double> parts;
    for (const double part : parts_) {
      const double sum = x + part;
      const double other = sum - x;
      const double error = (x - (sum - other)) + (part - other);
      if (error != 0) parts.push_back(error);
      x = sum;
    }
    parts.push_back(x);
    parts_ = std::move(parts);
  }
  // The product of two, exactly but for subnormals.
  void add_product(double a, double b) {
    const double product = a * b;
    add(product);
    add(std::fma(a, b, -product));
  }
  // To a few units in the last place.
  double value() const {
    double sum = 0;
    for (const double part : parts_) sum += part;
    return sum;
  }

 private:
  std::vector<double> parts_;  // by increasing magnitude
};

}  // namespace convoy::comm
