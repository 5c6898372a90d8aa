// The clock that everything here is timed with.
#pragma once

#include <chrono>

namespace convoy {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace convoy
