// For tests of parsers behind a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/base/checksum.h"

namespace convoy::data {

// Gives an index whose bytes were changed the checksums of what it holds now.
inline void reseal(std::vector<std::byte>& index) {
  const auto put = [&index](std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) {
      index[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
    }
  };
  if (index.size() < 128) return;
  put(72, xxh3(std::span(index).subspan(128)));
  put(120, xxh3(std::span(index).first(120)));
}

}  // namespace convoy::data
