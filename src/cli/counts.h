// Large whole numbers as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace convoy::cli {

// "25,557,032". REQUIRES: not negative.
inline std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

}  // namespace convoy::cli
