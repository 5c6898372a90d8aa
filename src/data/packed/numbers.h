// Numbers in files: unsigned, least significant byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace convoy::data {

template <typename Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  Number value = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;) {
    value = static_cast<Number>(value << 8 | std::to_integer<Number>(bytes[at + i]));
  }
  return value;
}

template <typename Number>
void put(std::vector<std::byte>& to, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    to.push_back(static_cast<std::byte>(value & 0xff));
    value = static_cast<Number>(value >> 8);
  }
}

}  // namespace convoy::data
