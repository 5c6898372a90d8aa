// How much of something there was per second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "server/replication/types.h"

namespace convoy::server::coordinator {

// Over the last 10 seconds, of what was reported in them.
class Rate {
 public:
  static constexpr replication::Time kWindow = replication::milliseconds(10'000);

  explicit Rate(replication::Time began = 0) : began_(began) {}

  void add(replication::Time now, std::uint64_t count) {
    forget(now);
    // Many reports in a moment are one.
    if (!counts_.empty() && now - counts_.back().first < kWindow / 100) {
      counts_.back().second += count;
    } else {
      counts_.emplace_back(now, count);
    }
  }
  double per_second(replication::Time now) const {
    std::uint64_t sum = 0;
    for (const auto& [when, count] : counts_) {
      if (now - when <= kWindow) sum += count;
    }
    const replication::Time lived = now > began_ ? now - began_ : 0;
    const replication::Time over = std::clamp<replication::Time>(lived, 1'000'000, kWindow);
    return static_cast<double>(sum) * 1e6 / static_cast<double>(over);
  }

 private:
  void forget(replication::Time now) {
    while (!counts_.empty() && now - counts_.front().first > kWindow) counts_.pop_front();
  }

  replication::Time began_;
  std::deque<std::pair<replication::Time, std::uint64_t>> counts_;
};

}  // namespace convoy::server::coordinator
