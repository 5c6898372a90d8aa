// What an algorithm sees of its operation: ranks, and messages on lanes of its own.
#pragma once

#include <cstdint>
#include <span>

#include "convoy/comm/transport.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

// One operation's window on a transport. Lanes keep apart the messages of one operation between the
// same two ranks (the colors of a multi-color allreduce, say); messages on one lane arrive in
// order.
class Io {
 public:
  static constexpr int kLanes = 64;
  static constexpr int kCheckLane = kLanes - 1;  // the comparison of calls

  Io(Transport& transport, Match match)
      : transport_(transport),
        tag_((static_cast<std::uint32_t>(match.channel) << 22) |
             (static_cast<std::uint32_t>(match.key) << 6)) {}

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  Ticket send(int to, std::span<const std::byte> data, int lane = 0) {
    return transport_.send(to, tag_ | static_cast<std::uint32_t>(lane), data);
  }
  Ticket receive(int from, std::span<std::byte> data, int lane = 0) {
    return transport_.receive(from, tag_ | static_cast<std::uint32_t>(lane), data);
  }

 private:
  Transport& transport_;
  std::uint32_t tag_;  // channel: 6 bits, key: 16, lane: 6
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
