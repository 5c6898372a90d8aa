#include "convoy/base/parts.h"

#include <cmath>
#include <cstddef>

#include "convoy/base/even_share.h"

namespace convoy {

Units units_of(std::int64_t units, std::span<const double> parts, int index, int partitions) {
  if (parts.empty()) {
    const auto share = evenly<std::int64_t>(units, partitions, index);
    return {share.begin, share.size};
  }
  double sum = 0;
  for (const double part : parts) sum += part;
  // What lies before part i of them; the last one with anything ends exactly at the end.
  const auto before = [&](int i) {
    double part_sum = 0, rest = 0;
    for (int k = 0; k < partitions; ++k)
      (k < i ? part_sum : rest) += parts[static_cast<std::size_t>(k)];
    if (rest == 0) return units;
    return static_cast<std::int64_t>(std::llround(static_cast<double>(units) * (part_sum / sum)));
  };
  const std::int64_t begin = before(index);
  return {begin, before(index + 1) - begin};
}

}  // namespace convoy
