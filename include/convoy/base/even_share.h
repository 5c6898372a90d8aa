// This divides things evenly.
#pragma once

#include <algorithm>
#include <concepts>

namespace convoy {

// These are things begin to begin + size - 1.
template <std::integral T>
struct EvenShare {
  T begin = 0, size = 0;

  T end() const { return begin + size; }
  bool operator==(const EvenShare&) const = default;
};

// Gives share `index` of `count` things in a row, cut into `shares` consecutive ones: their sizes
// differ by at most 1, and the first ones are the larger. The last ones are empty where there are
// more shares than things. REQUIRES: 0 <= index < shares, count >= 0.
template <std::integral T>
constexpr EvenShare<T> evenly(T count, T shares, T index) {
  const T each = count / shares, larger = count % shares;
  return {index * each + std::min(index, larger), each + (index < larger ? 1 : 0)};
}

}  // namespace convoy
