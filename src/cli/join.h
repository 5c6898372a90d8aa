// Commands that run as ranks.
#pragma once

#include <string>

#include "convoy/base/error.h"
#include "convoy/comm/world.h"

namespace convoy::cli {

// The world of a command whose option -n says `ranks`; 0: it doesn't. Throws UsageError where the
// job has others.
inline comm::World join_ranks(int ranks, const comm::WorldOptions& options = {}) {
  comm::World world = comm::World::join(options);
  if (ranks > 0 && ranks != world.size()) {
    throw UsageError("-n " + std::to_string(ranks) + " inside a job of " +
                     std::to_string(world.size()) + " ranks: leave -n out there");
  }
  return world;
}

}  // namespace convoy::cli
