// How many positions of a locally connected layer are computed at a time. Torch-free.
#pragma once

#include <algorithm>
#include <cstdint>

namespace convoy::model {

// A copy of what the filters of some positions see takes so many bytes at most, unless one position
// needs more.
inline constexpr std::int64_t kLocalCopyBytes = std::int64_t{32} << 20;

// A rectangle of positions: whole rows, or a part of one.
struct LocalBlock {
  std::int64_t rows = 0, columns = 0;
};

// The largest block of so many rows and columns, all of which are computed in blocks. `position`:
// the bytes of a copy of what the filters of one position see.
inline LocalBlock local_block(std::int64_t rows, std::int64_t columns, std::int64_t position) {
  const std::int64_t most =
      std::max<std::int64_t>(kLocalCopyBytes / std::max<std::int64_t>(position, 1), 1);
  return {std::clamp<std::int64_t>(most / columns, 1, rows), std::min(most, columns)};
}

}  // namespace convoy::model
