// What a thread keeps of memory from one picture to the next, where a single one may be a hundred
// times as large as all others.
#pragma once

#include <cstddef>
#include <vector>

namespace convoy::data {

inline constexpr std::size_t kKeptBytes = std::size_t{64} << 20;

// Gives memory back that is more than is kept.
template <class T>
void give_back(std::vector<T>& scratch) {
  if (scratch.capacity() * sizeof(T) > kKeptBytes) std::vector<T>().swap(scratch);
}

}  // namespace convoy::data
