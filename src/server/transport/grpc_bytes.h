// Frames as messages of gRPC, without copying what they carry.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "server/transport/frame.h"

namespace convoy::server::transport {

// The most that a frame of a stream carries.
inline constexpr std::size_t kStreamPayload = 2 << 20;
inline constexpr std::size_t kLongestStreamMessage =
    kStreamPayload + FrameHeader::kBytes + 0xffff;  // with the longest name of a method

grpc::ByteBuffer to_grpc(const Frame& frame);
// Throws Failure for what is no frame.
Frame from_grpc(const grpc::ByteBuffer& buffer);

}  // namespace convoy::server::transport
