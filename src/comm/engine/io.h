// What an algorithm sees of its operation: ranks, and messages on lanes of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "convoy/comm/transport.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

// One operation's window on a transport. Lanes keep apart the messages of one operation between the
// same two ranks (the colors of a multi-color allreduce, say); messages on one lane arrive in
// order.
class Io {
 public:
  static constexpr int kLanes = 64;
  static constexpr int kCheckLane = kLanes - 1;    // the comparison of calls
  static constexpr int kMessageLane = kLanes - 2;  // what is sent and received by itself

  Io(Transport& transport, Match match)
      : transport_(transport),
        tag_((static_cast<std::uint32_t>(match.channel) << 22) |
             (static_cast<std::uint32_t>(match.key) << 6)),
        rank_(transport.rank()),
        size_(transport.size()) {}

  // Gives such a window for some of the ranks, numbered in this order; this one is among them.
  Io among(std::vector<int> ranks) const {
    Io part(*this);
    part.rank_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    part.size_ = static_cast<int>(ranks.size());
    part.ranks_ = std::move(ranks);
    return part;
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Says which of them is rank 0 of the world. REQUIRES: it is among them.
  int first_of_world() const {
    int rank = 0;
    while (transport_.world_rank(number(rank)) != 0) ++rank;
    return rank;
  }
  // Calls the allreduce of the library under the transport, which blocks: for all of its ranks.
  void allreduce_below(Buffer data, ReduceOp op) { transport_.allreduce(data, op); }
  // Says how many bytes one message can have.
  std::size_t most_bytes() const { return transport_.most_bytes(); }

  Ticket send(int to, std::span<const std::byte> data, int lane = 0) {
    return transport_.send(number(to), tag_ | static_cast<std::uint32_t>(lane), data);
  }
  Ticket receive(int from, std::span<std::byte> data, int lane = 0) {
    return transport_.receive(number(from), tag_ | static_cast<std::uint32_t>(lane), data);
  }

 private:
  int number(int rank) const {
    return ranks_.empty() ? rank : ranks_[static_cast<std::size_t>(rank)];
  }

  Transport& transport_;
  std::uint32_t tag_;  // channel: 6 bits, key: 16, lane: 6
  int rank_;
  int size_;
  std::vector<int> ranks_;  // of the transport; empty for all of them
};

inline std::span<std::byte> bytes_of(Buffer b) {
  return {static_cast<std::byte*>(b.data), b.bytes()};
}
inline std::span<const std::byte> bytes_of(ConstBuffer b) {
  return {static_cast<const std::byte*>(b.data), b.bytes()};
}
// Elements [begin, begin + count) of a buffer.
inline Buffer slice(Buffer b, std::size_t begin, std::size_t count) {
  return {static_cast<std::byte*>(b.data) + begin * size_of(b.type), count, b.type};
}

}  // namespace convoy::comm
