// Parts of epochs that somebody hands out while a Loader goes through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "convoy/data/epoch_order.h"

namespace convoy::data {

// These are positions of the order of an epoch.
struct EpochPart {
  std::uint64_t epoch = 0;
  Range positions;
  bool operator==(const EpochPart&) const = default;
};

// This is a queue of them. Any thread.
class Portions {
 public:
  // Adds one, which must not be empty.
  void add(const EpochPart& portion);
  // Gives the next `batch` positions, or as many as the first portion has left; nothing where there
  // is none. Batches don't reach from one portion into the next.
  std::optional<EpochPart> next(std::size_t batch);
  void clear();

 private:
  std::mutex mutex_;
  std::deque<EpochPart> portions_;
};

}  // namespace convoy::data
