#include "base/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "convoy/base/error.h"

namespace convoy {
namespace {

constexpr std::size_t kBlock = 1024;  // terms whose parts add up in doubles without rounding
constexpr std::size_t kLanes = 8;     // sums of their own, so that the compiler can use vectors
// Blocks whose largest number lies outside are added one by one.
constexpr double kLargest = 0x1p1000;
constexpr double kSmallest = 0x1p-850;
// Products below have no low part: computing it would leave the range of double.
constexpr double kWholeProduct = 0x1p-900;
constexpr double kLargestFactor = 0x1p500;  // Veltkamp's splitting multiplies by 2^27 + 1

static_assert(kBlock % kLanes == 0);

struct ProductParts {
  double high;
  double low;
};

// Dekker 1971: a b = high + low without error, by numbers of 26 bits. fma() would be a call where
// the library is built for processors that may lack it.
inline ProductParts exact_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double as = kSplit * a, ah = as - (as - a), al = a - ah;
  const double bs = kSplit * b, bh = bs - (bs - b), bl = b - bh;
  const double high = a * b;
  const double low = ((ah * bh - high) + ah * bl + al * bh) + al * bl;
  return {high, std::abs(high) < kWholeProduct ? 0 : low};
}

double largest_of(const double* values, std::size_t count) {
  double lanes[kLanes] = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double size = std::abs(values[i + lane]);
      lanes[lane] = size > lanes[lane] ? size : lanes[lane];
    }
  }
  return *std::max_element(lanes, lanes + kLanes);
}

// Takes the multiple of `unit` next to each value out of it, and gives the sum of these, which is
// exact where the values are below 2^40 units: they are whole numbers of units, and 1024 of them
// have at most 50 bits.
double take_out(double* values, std::size_t count, double unit) {
  const double shift = 0x1.8p52 * unit;  // adding it rounds to units
  double lanes[kLanes] = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double part = (values[i + lane] + shift) - shift;
      values[i + lane] -= part;
      lanes[lane] += part;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<unsigned>(bits >> 52) & 0x7ff;
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  const bool negative = bits >> 63 != 0;
  if (exponent == 0x7ff) {
    special_ |= mantissa != 0 ? kNaN : negative ? kNegativeInfinity : kPositiveInfinity;
    return;
  }
  if (exponent != 0) mantissa |= std::uint64_t{1} << 52;
  const unsigned place = exponent == 0 ? 0 : exponent - 1;  // of the last bit
  const unsigned shift = place % 32;
  std::int64_t* chunk = &chunks_[place / 32];
  // Three pieces of at most 32 bits of a number of at most 84.
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const auto first = static_cast<std::int64_t>(low & 0xffffffff);
  const auto second = static_cast<std::int64_t>(low >> 32);
  const auto third = static_cast<std::int64_t>(high);
  if (negative) {
    chunk[0] -= first, chunk[1] -= second, chunk[2] -= third;
  } else {
    chunk[0] += first, chunk[1] += second, chunk[2] += third;
  }
  if (++additions_ == std::uint32_t{1} << 30) carry();
}

void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < kChunks; ++i) {
    chunks_[i + 1] += chunks_[i] >> 32;
    chunks_[i] &= 0xffffffff;
  }
  additions_ = 0;
}

void ExactSum::add(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();
  carry();
  for (std::size_t i = 0; i < kChunks; ++i) chunks_[i] += carried.chunks_[i];
  special_ |= other.special_;
  additions_ = 1;
}

bool ExactSum::add_block(const double* values, std::size_t count) {
  alignas(64) double rest[kBlock];
  const std::size_t padded = (count + kLanes - 1) / kLanes * kLanes;
  std::copy_n(values, count, rest);
  std::fill(rest + count, rest + padded, 0.0);
  const double largest = largest_of(rest, padded);
  // A NaN is no larger than anything: it makes the sums NaN.
  if (!(largest < kLargest) || largest < kSmallest) return false;
  const int exponent = std::ilogb(largest);
  double parts[3];
  double unit = std::ldexp(1, exponent + 1 - 40);
  for (double& part : parts) {
    part = take_out(rest, padded, unit);
    unit *= 0x1p-41;
  }
  if (!std::isfinite(parts[0])) return false;
  for (const double part : parts) add(part);
  // What lies 2^122 below the largest is rare.
  if (largest_of(rest, padded) > 0) add_one_by_one(rest, padded);
  return true;
}

void ExactSum::add_one_by_one(const double* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] != 0) add(values[i]);
  }
}

void ExactSum::add(std::span<const double> values) {
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - at);
    if (!add_block(values.data() + at, count)) add_one_by_one(values.data() + at, count);
  }
}

void ExactSum::add_products(const float* a, const float* b, std::size_t count) {
  alignas(64) double products[kBlock];
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t now = std::min(kBlock, count - at);
    for (std::size_t i = 0; i < now; ++i) {
      products[i] = static_cast<double>(a[at + i]) * static_cast<double>(b[at + i]);
    }
    add({products, now});
  }
}

void ExactSum::add_products(const double* a, const double* b, std::size_t count) {
  alignas(64) double high[kBlock];
  alignas(64) double low[kBlock];
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t now = std::min(kBlock, count - at);
    bool usual = true;
    for (std::size_t i = 0; i < now; ++i) {
      usual &= std::abs(a[at + i]) < kLargestFactor && std::abs(b[at + i]) < kLargestFactor;
    }
    for (std::size_t i = 0; i < now; ++i) {
      const ProductParts parts = exact_product(a[at + i], b[at + i]);
      high[i] = parts.high;
      low[i] = parts.low;
    }
    if (!usual) {
      for (std::size_t i = 0; i < now; ++i) {
        high[i] = a[at + i] * b[at + i];
        low[i] = std::fma(a[at + i], b[at + i], -high[i]);
        if (std::abs(high[i]) < kWholeProduct || !std::isfinite(high[i])) low[i] = 0;
      }
    }
    add({high, now});
    add({low, now});
  }
}

double ExactSum::value() const {
  if ((special_ & kNaN) != 0 || special_ == (kPositiveInfinity | kNegativeInfinity)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (special_ != 0) {
    const double infinity = std::numeric_limits<double>::infinity();
    return special_ == kPositiveInfinity ? infinity : -infinity;
  }
  ExactSum sum = *this;
  sum.carry();
  const bool negative = sum.chunks_.back() < 0;
  if (negative) {
    for (std::int64_t& chunk : sum.chunks_) chunk = -chunk;
    sum.carry();
  }
  std::size_t top = kChunks - 1;
  while (top > 0 && sum.chunks_[top] == 0) --top;
  // The last chunk holds more than 32 bits only where the sum is beyond every double.
  if (top == kChunks - 1) {
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  // 64 bits from the highest one down, and whether anything is left below them.
  const auto chunk = [&](std::size_t down) {
    return down > top ? 0 : static_cast<std::uint64_t>(sum.chunks_[top - down]);
  };
  std::uint64_t bits = chunk(0) << 32 | chunk(1);
  if (bits == 0) return 0;
  const int zeros = std::countl_zero(bits);
  bits = bits << zeros | (zeros == 0 ? 0 : chunk(2) << 32 >> (64 - zeros));
  const std::uint64_t below = zeros == 0 ? chunk(2) : chunk(2) << 32 << zeros;
  bool left = below != 0;
  for (std::size_t down = 3; down <= top; ++down) left |= chunk(down) != 0;
  // `bits` counts units of 2^exponent, which may be smaller than the smallest double's: those bits
  // are 0.
  const int exponent = static_cast<int>(32 * top) - 32 - zeros - 1074;
  std::uint64_t mantissa = bits >> 11;
  const std::uint64_t rest = bits & 0x7ff;
  constexpr std::uint64_t kHalf = 0x400;
  if (rest > kHalf || (rest == kHalf && (left || mantissa % 2 == 1))) ++mantissa;
  const double size = std::ldexp(static_cast<double>(mantissa), exponent + 11);
  return negative ? -size : size;
}

void ExactSum::write(std::span<std::byte, kBytes> bytes) const {
  ExactSum carried = *this;
  carried.carry();
  std::size_t at = 0;
  const auto put = [&](std::uint64_t number) {
    for (int i = 0; i < 8; ++i) bytes[at++] = static_cast<std::byte>(number >> (8 * i));
  };
  for (const std::int64_t chunk : carried.chunks_) put(static_cast<std::uint64_t>(chunk));
  put(special_);
}

ExactSum ExactSum::read(std::span<const std::byte, kBytes> bytes) {
  ExactSum sum;
  std::size_t at = 0;
  const auto get = [&] {
    std::uint64_t number = 0;
    for (int i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(bytes[at++]) << (8 * i);
    return number;
  };
  bool sound = true;
  for (std::size_t i = 0; i < kChunks; ++i) {
    sum.chunks_[i] = static_cast<std::int64_t>(get());
    if (i + 1 < kChunks) sound &= sum.chunks_[i] >= 0 && sum.chunks_[i] <= 0xffffffff;
  }
  // As many additions of the largest double as a sum is made for leave the last chunk smaller. So
  // many sums of others' bytes may be added up.
  constexpr std::int64_t kMost = std::int64_t{1} << 46;
  sound &= sum.chunks_.back() > -kMost && sum.chunks_.back() < kMost;
  sum.special_ = get();
  sound &= sum.special_ <= (kPositiveInfinity | kNegativeInfinity | kNaN);
  if (!sound) throw Failure("these bytes are no exact sum");
  return sum;
}

bool ExactSum::operator==(const ExactSum& other) const {
  ExactSum a = *this, b = other;
  a.carry();
  b.carry();
  return a.chunks_ == b.chunks_ && a.special_ == b.special_;
}

}  // namespace convoy
