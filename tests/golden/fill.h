// Values that Python and C++ compute alike; the twin of fill.py, which holds the definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace convoy::golden {

inline std::uint64_t fnv1a64(std::string_view name) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return h;
}

inline double fill_at(std::uint64_t key, std::uint64_t index, double scale, double offset) {
  std::uint64_t z = (key + index) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  const double unit = 2.0 * static_cast<double>(z >> 40) / 16777216.0 - 1.0;
  return scale * unit + offset;
}

template <typename T = double>
std::vector<T> fill(std::string_view name, std::size_t count, double scale = 1, double offset = 0) {
  const std::uint64_t key = fnv1a64(name);
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(fill_at(key, i, scale, offset));
  }
  return values;
}

// For a parameter or buffer of a network; `dimensions` and `fan_in` (elements per output) as in
// fill.py's scale_and_offset.
inline std::pair<double, double> scale_and_offset(std::string_view name, std::int64_t dimensions,
                                                  std::int64_t fan_in) {
  if (name.ends_with("running_var")) return {0.2, 1.0};
  if (dimensions == 1) {
    return name.ends_with("weight") ? std::pair{0.2, 1.0} : std::pair{0.1, 0.0};
  }
  return {std::sqrt(6.0 / static_cast<double>(fan_in)), 0.0};
}

}  // namespace convoy::golden
