// How floats become whole numbers whose sum is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convoy/comm/types.h"

namespace convoy::comm {

// The sum of p numbers x, of which the largest has the exponent E: |x| < 2^(E+1). Each is rounded
// to a whole number of units of 2^(E + 1 - bits), which depends on x, E and p alone, and p of these
// add up without overflow, to the same in any order. For f32, and 16-bit floats as f32:
//
//   ranks      whole numbers  bits
//   2 to 64    i32            31 - ceil(log2 p), at least 25
//   above      i64            63 - ceil(log2 p), at least 43
//
// and for f64:
//
//   2 to 512   i64            63 - ceil(log2 p), at least 54
//   above      two of i64     2 (62 - ceil(log2 p)), at least 84: high and low part of one number
//
// A number is rounded only if it has fewer than `bits` less its type's mantissa (24 or 53) binary
// places below E, by 2^-bits of the largest number at most; so a sum is within (p-1) 2^-bits of the
// largest number of the exact one, before it is rounded to its type. Infinity and NaN are counted
// in the bits of their element's whole number instead.
struct Grid {
  static constexpr int kMostRanks = 1 << 20;

  Type type = Type::f32;     // of what is added
  Type exponent = Type::u8;  // u8, or i32 for f64: field of the exponent, what is reduced by max
  Type whole = Type::i32;    // of a whole number, or each part of one
  int parts = 1;
  int bits = 0;

  bool narrow() const { return whole == Type::i32; }
  // Whether the whole numbers fit where the floats were.
  bool in_place() const { return parts == 1 && size_of(whole) == size_of(type); }
};

// For floating types and 1 to kMostRanks ranks; throws UsageError for more.
Grid grid_of(Type type, int ranks);

}  // namespace convoy::comm
