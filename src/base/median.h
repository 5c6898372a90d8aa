// The middle of repeated measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace convoy {

// The mean of the two middle ones for an even number. Not for an empty list.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace convoy
