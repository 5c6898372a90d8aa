// Bytes in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace convoy::data {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace convoy::data
