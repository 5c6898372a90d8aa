// All-to-all of uneven parts.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/engine/io.h"
#include "comm/engine/task.h"

namespace convoy::comm {

// A part of a buffer, in bytes.
struct BytePart {
  std::size_t offset = 0, bytes = 0;
};

// What a caller's parts are in bytes. Throws UsageError, naming the side, when there isn't one for
// each of `ranks`, or when one isn't within the buffer's `elements`.
std::vector<BytePart> byte_parts(Parts parts, int ranks, std::size_t elements, Type type,
                                 const char* side);

// Bytes of a segment between hosts: just above TCP's eager limit (64 KiB in Open MPI), so that a
// sender waits for its receiver. What runs ahead fills queues on the way, and packets are lost.
constexpr std::size_t kSegmentBetweenHosts = 96 << 10;
// On one host, where each costs a system call.
constexpr std::size_t kSegmentOnOneHost = 1 << 20;

// Rank r sends to r + 1, r + 2, ... and receives from r - 1, r - 2, ...: some peers at a time, and
// the next one when all of one's part is on its way. In segments, so that no part has a size limit.
// The own part is copied.
Task alltoallv_spread(Io& io, ConstBuffer send, std::vector<BytePart> outgoing, Buffer receive,
                      std::vector<BytePart> incoming, std::size_t segment);

}  // namespace convoy::comm
