// Waiting of threads for each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace convoy::parallel {

// Waits until `over` or up to the timeout, of which the time in which this process is stopped takes
// none; returns what `over` says then.
template <class Over>
bool wait_up_to(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                std::chrono::duration<double> timeout, const Over& over) {
  constexpr std::chrono::duration<double> kPiece(1);
  for (auto left = timeout; left.count() > 0; left -= kPiece) {
    if (changed.wait_for(lock, std::min(left, kPiece), over)) return true;
  }
  return over();
}

}  // namespace convoy::parallel
