// Where configurations are kept.
#pragma once

#include <cstdint>
#include <functional>

#include "server/replication/types.h"

namespace convoy::server::replication {

// Keeps the newest configuration of each shard, survives whatever is promised of it, and is the one
// place that must never forget. Thread-safe.
class ConfigurationStore {
 public:
  struct Answer {
    bool reached = false;  // otherwise nobody knows what became of what was asked
    Configuration newest;  // epoch 0 when the shard has none
  };
  // Called once, from any thread, also before the call that it answers returns.
  using Done = std::function<void(const Answer&)>;

  virtual ~ConfigurationStore() = default;
  // The newest configuration, as of some moment between call and answer.
  virtual void read(std::uint32_t shard, Done done) = 0;
  // Stores `next` if the newest one has epoch next.epoch - 1, in one step; the answer has the
  // newest one afterwards.
  virtual void compare_and_set(const Configuration& next, Done done) = 0;
};

}  // namespace convoy::server::replication
