// Frames: the pieces in which messages and what is said about them travel over one connection.
// docs/server-transport.md has them byte by byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "server/transport/message.h"

namespace convoy::server::transport {

enum class FrameType : std::uint8_t {
  hello = 1,     // client: who it is and what it takes
  welcome = 2,   // server: what it takes, and shared memory if it offers some
  refusal = 3,   // server: why it does not serve this client; its last frame
  moved = 4,     // client: status 1, all that follows goes through the shared memory; 0, it can't
  request = 5,   // a request begins
  reply = 6,     // a reply begins
  more = 7,      // a request, or reply, goes on
  abandon = 8,   // client: the call is given up; server: the reply's rest does not come
  released = 9,  // nothing but credits
};

// Status of a reply.
inline constexpr std::uint8_t kDone = 0, kFailed = 1, kUnanswered = 2;

struct FrameHeader {
  static constexpr std::size_t kBytes = 40;

  FrameType type = FrameType::released;
  // Of a reply: 0 done, 1 the handler's error; of `moved`. Of a request: where it had best begin in
  // the receiver's memory, modulo 64.
  std::uint8_t status = 0;
  std::uint16_t method_bytes =
      0;  // of a request: the name of the method stands in front of the payload
  std::uint32_t payload_bytes = 0;  // without the method
  std::uint64_t call = 0;
  std::uint64_t size = 0;            // of the whole message where one begins
  std::uint32_t time_left_ms = 0;    // of a request: until its deadline
  std::uint32_t released_small = 0;  // credits that the sender of this frame gives back,
  std::uint64_t released_large = 0;  // see credits.h

  std::array<std::byte, kBytes> encode() const;
  // Throws Failure for a type that does not exist. Whether sizes are sensible is for the reader.
  static FrameHeader decode(std::span<const std::byte, kBytes> bytes);
};

struct Frame {
  FrameHeader header;
  std::string method;
  Message payload;
};

}  // namespace convoy::server::transport
