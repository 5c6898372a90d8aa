// Sums of floating-point numbers without rounding: the same bits in any order, and however the
// terms are cut into pieces whose sums are added up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace convoy {

// A whole number of units of 2^-1074, the smallest double, wide enough for 2^63 of the largest
// doubles. Infinity and NaN are remembered and decide the value: NaN if there is one, or infinities
// of both signs.
class ExactSum {
 public:
  void add(double value);
  void add(std::span<const double> values);
  void add(const ExactSum& other);

  // Adds a[i] b[i] for all of `count` elements. Products of floats have no error. A product of
  // doubles is taken with all of its 106 bits, unless it is smaller than 2^-900, where it is
  // rounded to double by itself; beyond the range of double it is infinite. Neither depends on the
  // other elements.
  void add_products(const float* a, const float* b, std::size_t count);
  void add_products(const double* a, const double* b, std::size_t count);

  // The nearest double, of two as near the even one; +0 for nothing.
  double value() const;

  // Equal sums have equal bytes, whatever was added to make them: whole numbers, little-endian.
  // read() throws Failure for bytes that no sum has.
  static constexpr std::size_t kBytes = 69 * 8;
  void write(std::span<std::byte, kBytes> bytes) const;
  static ExactSum read(std::span<const std::byte, kBytes> bytes);

  bool operator==(const ExactSum& other) const;

 private:
  static constexpr std::size_t kChunks = 68;
  enum Special : std::uint64_t { kPositiveInfinity = 1, kNegativeInfinity = 2, kNaN = 4 };

  // Needs every value to be finite and, but for zeros, not near the ends of the range; says whether
  // that was so. If not, nothing has been added.
  bool add_block(const double* values, std::size_t count);
  void add_one_by_one(const double* values, std::size_t count);
  // Brings every chunk but the last into [0, 2^32).
  void carry();

  // Chunk i counts units of 2^(32 i - 1074). Between two calls of carry() a chunk takes what 2^30
  // additions bring.
  std::array<std::int64_t, kChunks> chunks_{};
  std::uint32_t additions_ = 0;  // since carry()
  std::uint64_t special_ = 0;
};

}  // namespace convoy
