// A number of units divided among partitions.
#pragma once

#include <cstdint>
#include <span>

namespace convoy {

// These are units begin to begin + size - 1.
struct Units {
  std::int64_t begin = 0, size = 0;
  bool operator==(const Units&) const = default;
};

// Gives what partition `index` of `partitions` has of `units`. Without `parts` that is even: the
// first ones have one more where they don't divide. With them part i ends at units * (parts[0] +
// ... + parts[i]) / sum, rounded. Some may have none; together they have all, in order. REQUIRES:
// as many parts as partitions, or none; none is negative, and one is positive.
Units units_of(std::int64_t units, std::span<const double> parts, int index, int partitions);

}  // namespace convoy
