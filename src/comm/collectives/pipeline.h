// How a collective cuts what it sends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "convoy/comm/types.h"

namespace convoy::comm {

// Segments of about `segment_bytes` follow each other; for up to `in_flight` of them at a time a
// rank that sums has posted receives, and holds the memory. Neither has a part in the order of
// summation.
struct Pipeline {
  // Below the eager limits of MPI libraries for TCP: longer messages wait for a handshake, which
  // waits behind the data under way.
  std::size_t segment_bytes = 32 << 10;
  std::size_t in_flight = 4;

  bool operator==(const Pipeline&) const = default;
};

// The number of segments for `count` elements, at least 1: nothing is sent as an empty message, so
// that ranks that disagree about it find out.
inline int segments_of(std::size_t count, Type type, const Pipeline& pipeline) {
  const std::size_t bytes = count * size_of(type);
  // No empty ones among full ones, and as many as can be numbered.
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  const std::size_t most = std::clamp<std::size_t>(count, 1, kMost);
  return static_cast<int>(std::clamp((bytes + pipeline.segment_bytes - 1) / pipeline.segment_bytes,
                                     std::size_t{1}, most));
}

}  // namespace convoy::comm
