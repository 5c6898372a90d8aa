#include "server/transport/frame.h"

#include "convoy/base/error.h"
#include "server/wire/little_endian.h"

namespace convoy::server::transport {

std::array<std::byte, FrameHeader::kBytes> FrameHeader::encode() const {
  std::array<std::byte, kBytes> bytes;
  put_little_endian(&bytes[0], static_cast<std::uint8_t>(type));
  put_little_endian(&bytes[1], status);
  put_little_endian(&bytes[2], method_bytes);
  put_little_endian(&bytes[4], payload_bytes);
  put_little_endian(&bytes[8], call);
  put_little_endian(&bytes[16], size);
  put_little_endian(&bytes[24], time_left_ms);
  put_little_endian(&bytes[28], released_small);
  put_little_endian(&bytes[32], released_large);
  return bytes;
}

FrameHeader FrameHeader::decode(std::span<const std::byte, kBytes> bytes) {
  FrameHeader header;
  const auto type = get_little_endian<std::uint8_t>(&bytes[0]);
  if (type < static_cast<std::uint8_t>(FrameType::hello) ||
      type > static_cast<std::uint8_t>(FrameType::released)) {
    throw Failure("a frame of type " + std::to_string(type) + ", which does not exist");
  }
  header.type = static_cast<FrameType>(type);
  header.status = get_little_endian<std::uint8_t>(&bytes[1]);
  header.method_bytes = get_little_endian<std::uint16_t>(&bytes[2]);
  header.payload_bytes = get_little_endian<std::uint32_t>(&bytes[4]);
  header.call = get_little_endian<std::uint64_t>(&bytes[8]);
  header.size = get_little_endian<std::uint64_t>(&bytes[16]);
  header.time_left_ms = get_little_endian<std::uint32_t>(&bytes[24]);
  header.released_small = get_little_endian<std::uint32_t>(&bytes[28]);
  header.released_large = get_little_endian<std::uint64_t>(&bytes[32]);
  return header;
}

}  // namespace convoy::server::transport
