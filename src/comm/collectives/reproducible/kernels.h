// Conversions between floats and numbers whose reduction is the same in any order, and whole
// reductions by them. Any alignment. The same bits on every machine, and in every thread, whatever
// its rounding mode, and whether or not it flushes subnormals to zero.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "comm/collectives/reproducible/grid.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

// The whole numbers of some elements, high parts and low parts (Grid::parts 2) each by themselves.
using WholeNumbers = std::array<std::byte*, 2>;

// --- Sums: find the exponents, reduce them by max, convert, reduce by sum, convert back. ---

void find_exponents(const Grid& grid, const void* data, void* exponents, std::size_t count);
// `whole[0]` may be `data` if Grid::in_place().
void to_whole(const Grid& grid, const void* data, const void* exponents, const WholeNumbers& whole,
              std::size_t count);
// Divides by `divisor` (at most Grid::kMostRanks), and rounds once, to the nearest, ties to even;
// of a narrow() grid, to f32 first and from there to 16 bits. Zero is +0; NaN is the quiet one, of
// positive sign and without a payload.
void from_whole(const Grid& grid, const WholeNumbers& whole, const void* exponents, void* data,
                std::size_t count, int divisor);

// --- Max and min: convert, reduce, convert back. ---

// i64 for f64, else i32.
Type ordered_type(Type type);
// Whole numbers in the order of the floats, -0 before +0; NaN is the largest (`op` max) or smallest
// (min) of all. `ordered` may be `data` if the elements are of one size.
void to_ordered(Type type, ReduceOp op, const void* data, void* ordered, std::size_t count);
void from_ordered(Type type, const void* ordered, void* data, std::size_t count);

// --- Everything at once ---

// What all that gives, in one pass: for the sums of source_count contributions, as reduce_all() of
// comm/kernels/reduce.h otherwise. Of types that are not floating, it is that.
void reduce_reproducibly(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                         std::size_t count, int divisor = 1);

}  // namespace convoy::comm
