#include "convoy/base/parts.h"

#include <cmath>
#include <cstddef>

#include "convoy/base/slice.h"

namespace convoy {

Units units_of(std::int64_t units, std::span<const double> parts, int index, int partitions) {
  if (parts.empty()) {
    const Slice part = even_part("", {units}, 0, index, partitions);
    return {part.begin[0], part.size[0]};
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
