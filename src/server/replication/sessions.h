// The two ends of what a primary sends to its backup or joiner.
#pragma once

#include <cstdint>

#include "server/replication/types.h"

namespace convoy::server::replication {

// The backup or joiner, as its primary sees it.
struct Peer {
  enum class Feed : std::uint8_t { nothing, opening, snapshot, tail };
  Member member;
  std::uint64_t session = 0;  // 0: it has not asked yet
  bool required = false;      // nothing is committed without it: backup, or joint mode
  Feed feed = Feed::nothing;
  Index next = 0;  // tail: the next to send
  Index written = 0;
  Index synced = 0;
  Index gap_after = 0;  // where it was sent the tail again, and when
  Time gap_time = 0;
  std::uint64_t transfer = 0;  // opening, snapshot
  Position at;
  std::uint64_t total = 0, sent = 0, received = 0;
  Time heard = 0, spoken = 0, progress = 0;
};

// What this node is to its primary. It is kept when the node is promoted: messages of that session
// then are of an old epoch.
struct Following {
  enum class Phase : std::uint8_t { asking, snapshot, installing, tail };
  Member primary;
  std::uint64_t session = 0;
  Phase phase = Phase::asking;
  Epoch epoch = 0;  // of the last message of this session
  Position at;
  std::uint64_t total = 0, received = 0;  // of the snapshot
  Time heard = 0;
};

}  // namespace convoy::server::replication
