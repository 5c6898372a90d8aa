// Numbers as they travel: little-endian.
#pragma once

#include <cstddef>
#include <type_traits>

namespace convoy::server {

// REQUIRES: `at` has room for a T.
template <class T>
void put_little_endian(std::byte* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get_little_endian(const std::byte* at) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  }
  return value;
}

}  // namespace convoy::server
