#include "comm/collectives/reproducible/grid.h"

#include <bit>
#include <string>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

// One bit more than the mantissa, so that the numbers' rounding stays below that of their sum.
constexpr int kMostNarrow = 64;
constexpr int kMostSinglePart = 512;

}  // namespace

Grid grid_of(Type type, int ranks) {
  if (ranks > Grid::kMostRanks) {
    throw UsageError("reproducible sums are for at most " + std::to_string(Grid::kMostRanks) +
                     " ranks, not " + std::to_string(ranks));
  }
  const int carry = std::bit_width(static_cast<unsigned>(ranks) - 1);  // ceil(log2 ranks)
  Grid grid;
  grid.type = type;
  if (type == Type::f64) grid.exponent = Type::i32;
  if (type != Type::f64 && ranks <= kMostNarrow) {
    grid.bits = 31 - carry;
    return grid;
  }
  grid.whole = Type::i64;
  if (type == Type::f64 && ranks > kMostSinglePart) {
    grid.parts = 2;
    grid.bits = 2 * (62 - carry);
  } else {
    grid.bits = 63 - carry;
  }
  return grid;
}

}  // namespace convoy::comm
