#include "comm/collectives/reproducible/wide.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace convoy::comm {
namespace {

__extension__ using Wide = unsigned __int128;

int width_of(std::uint64_t value) { return std::bit_width(value); }
int width_of(Wide value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(value));
}

template <class T>
T load(const std::byte* from, std::size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(std::byte* to, std::size_t i, T value) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

// How a float's bits lie: sign, field of the exponent, kMantissa bits. All is done with these in
// whole numbers.
template <class B, class Field, int mantissa>
struct Format {
  using Bits = B;
  using Exponent = Field;  // as it is reduced
  static constexpr int kMantissa = mantissa;
  static constexpr int kSpecial = (1 << (static_cast<int>(sizeof(B)) * 8 - 1 - mantissa)) - 1;
  static constexpr int kBias = kSpecial / 2;
  static constexpr Bits kOne = Bits{1} << mantissa;  // the bit above the mantissa
  static constexpr Bits kInfinity = static_cast<Bits>(kOne * kSpecial);

  static int field(Bits bits) { return static_cast<int>(bits >> mantissa) & kSpecial; }
  static bool negative(Bits bits) { return (bits >> (sizeof(B) * 8 - 1)) != 0; }
  static Bits fraction(Bits bits) { return static_cast<Bits>(bits & (kOne - 1)); }
  static Bits make(bool negative, Bits magnitude) {
    return static_cast<Bits>((Bits{negative} << (sizeof(B) * 8 - 1)) | magnitude);
  }
};
using F64 = Format<std::uint64_t, std::int32_t, 52>;
using F32 = Format<std::uint32_t, std::uint8_t, 23>;
using F16 = Format<std::uint16_t, std::uint8_t, 10>;
using Bf16 = Format<std::uint16_t, std::uint8_t, 7>;

// A whole number, or a sum of them: high * 2^(bits / 2) + low of two parts, or high alone.
struct Number {
  std::int64_t high = 0;
  std::int64_t low = 0;
};

// What is added up where a contribution is infinite or NaN; counts of Grid::kMostRanks at most.
constexpr std::int64_t kPositive = 1, kNegative = std::int64_t{1} << 21,
                       kNans = std::int64_t{1} << 42;

template <class F>
std::int64_t count_special(typename F::Bits bits) {
  if (F::field(bits) != F::kSpecial) return 0;
  if (F::fraction(bits) != 0) return kNans;
  return F::negative(bits) ? kNegative : kPositive;
}

// To the nearest, halves away from zero. `shift` is less than the places of T.
template <class T>
T shifted(T magnitude, int shift) {
  const T half = shift > 0 ? T{1} << (shift - 1) : 0;
  return (magnitude + half) >> shift;
}

// To the nearest unit, halves away from zero.
template <class F>
Number to_number(const Grid& grid, typename F::Bits bits, int most) {
  if (most == F::kSpecial) return {count_special<F>(bits), 0};
  const int field = F::field(bits);
  const int shift = std::max(most, 1) - std::max(field, 1);
  if (shift > grid.bits) return {};
  const std::uint64_t mantissa = F::fraction(bits) | (field != 0 ? F::kOne : 0);
  const int up = grid.bits - F::kMantissa - 1;
  Number number;
  if (grid.parts == 1) {
    number.high = static_cast<std::int64_t>(shifted(mantissa << up, shift));
  } else {
    const int low_bits = grid.bits / 2;
    const Wide magnitude = shifted(Wide{mantissa} << up, shift);
    number.high = static_cast<std::int64_t>(magnitude >> low_bits);
    number.low = static_cast<std::int64_t>(magnitude & ((Wide{1} << low_bits) - 1));
  }
  if (F::negative(bits)) number = {-number.high, -number.low};
  return number;
}

// magnitude * 2^exponent, to the nearest, ties to even; a magnitude without T's highest place.
template <class F, class T>
typename F::Bits rounded(bool negative, T magnitude, int exponent) {
  if (magnitude == 0) return 0;
  // Of the last place that the result has.
  const int unit =
      std::max(width_of(magnitude) + exponent - (F::kMantissa + 1), 1 - F::kBias - F::kMantissa);
  const int shift = unit - exponent;
  T places = 0;
  if (shift <= 0) {
    places = magnitude << -shift;
  } else if (shift < 8 * static_cast<int>(sizeof(T))) {
    places = magnitude >> shift;
    const T rest = magnitude - (places << shift), half = T{1} << (shift - 1);
    if (rest > half || (rest == half && (places & 1) != 0)) ++places;
  }
  // The bit above the mantissa counts the field up by one, and so does one more by rounding.
  const int field = unit + F::kMantissa + F::kBias - 1;
  if (field >= F::kSpecial) return F::make(negative, F::kInfinity);
  const auto bits =
      static_cast<std::uint64_t>(field) * F::kOne + static_cast<std::uint64_t>(places);
  return F::make(negative,
                 static_cast<typename F::Bits>(std::min<std::uint64_t>(bits, F::kInfinity)));
}

template <class F>
typename F::Bits special_value(std::int64_t counts) {
  const bool positive = (counts & (kNegative - 1)) != 0;
  const bool negative = (counts & (kNans - kNegative)) != 0;
  if (counts >= kNans || (positive && negative))
    return static_cast<typename F::Bits>(F::kInfinity | (F::kOne >> 1));
  return F::make(negative, F::kInfinity);
}

template <class F>
typename F::Bits from_number(const Grid& grid, Number sum, int most, int divisor) {
  if (most == F::kSpecial) return special_value<F>(sum.high);
  int exponent = std::max(most, 1) - F::kBias + 1 - grid.bits;
  const bool quick = std::has_single_bit(static_cast<unsigned>(divisor));
  if (quick) exponent -= std::countr_zero(static_cast<unsigned>(divisor));
  if (quick && grid.parts == 1) {
    const auto bits = static_cast<std::uint64_t>(sum.high);
    return rounded<F>(sum.high < 0, sum.high < 0 ? -bits : bits, exponent);
  }
  __extension__ using Signed = __int128;
  Signed value = sum.high;
  if (grid.parts == 2) value = value * (Signed{1} << (grid.bits / 2)) + sum.low;
  auto magnitude = static_cast<Wide>(value < 0 ? -value : value);
  if (!quick && magnitude != 0) {
    // At least 100 places of the quotient, and a last one that says whether there are more.
    const int shift = 127 - width_of(magnitude);
    magnitude <<= shift;
    exponent -= shift;
    const auto by = static_cast<Wide>(divisor);
    const Wide quotient = magnitude / by;
    magnitude = quotient | (quotient * by != magnitude ? 1U : 0U);
  }
  return rounded<F>(value < 0, magnitude, exponent);
}

Number load_number(const Grid& grid, const WholeNumbers& whole, std::size_t i) {
  return {load<std::int64_t>(whole[0], i), grid.parts == 2 ? load<std::int64_t>(whole[1], i) : 0};
}

// Calls `use` with the format of a type.
template <class Use>
void with_format(Type type, Use&& use) {
  if (type == Type::f64) return use(F64());
  if (type == Type::f16) return use(F16());
  if (type == Type::bf16) return use(Bf16());
  use(F32());
}

}  // namespace

void find_exponents_wide(const Grid& grid, const std::byte* data, std::byte* exponents,
                         std::size_t count) {
  with_format(grid.type, [&]<class F>(F) {
    for (std::size_t i = 0; i < count; ++i) {
      const int field = F::field(load<typename F::Bits>(data, i));
      store(exponents, i, static_cast<typename F::Exponent>(field));
    }
  });
}

void to_whole_wide(const Grid& grid, const std::byte* data, const std::byte* exponents,
                   const WholeNumbers& whole, std::size_t count) {
  with_format(grid.type, [&]<class F>(F) {
    for (std::size_t i = 0; i < count; ++i) {
      const Number number = to_number<F>(grid, load<typename F::Bits>(data, i),
                                         load<typename F::Exponent>(exponents, i));
      store(whole[0], i, number.high);
      if (grid.parts == 2) store(whole[1], i, number.low);
    }
  });
}

void from_whole_wide(const Grid& grid, const WholeNumbers& whole, const std::byte* exponents,
                     std::byte* data, std::size_t count, int divisor) {
  with_format(grid.type, [&]<class F>(F) {
    for (std::size_t i = 0; i < count; ++i) {
      const int most = load<typename F::Exponent>(exponents, i);
      store(data, i, from_number<F>(grid, load_number(grid, whole, i), most, divisor));
    }
  });
}

void add_wide(const Grid& grid, std::byte* into, std::span<const void* const> sources,
              std::size_t count, int divisor) {
  with_format(grid.type, [&]<class F>(F) {
    const auto bits = [&](std::size_t s, std::size_t i) {
      return load<typename F::Bits>(static_cast<const std::byte*>(sources[s]), i);
    };
    for (std::size_t i = 0; i < count; ++i) {
      int most = 0;
      for (std::size_t s = 0; s < sources.size(); ++s) most = std::max(most, F::field(bits(s, i)));
      Number sum;
      for (std::size_t s = 0; s < sources.size(); ++s) {
        const Number number = to_number<F>(grid, bits(s, i), most);
        sum.high += number.high;
        sum.low += number.low;
      }
      store(into, i, from_number<F>(grid, sum, most, divisor));
    }
  });
}

}  // namespace convoy::comm
