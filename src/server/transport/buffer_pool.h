// Buffers for what is received, used again: the kernel takes as long to find and clear fresh pages
// as it takes to copy into them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace convoy::server::transport {

// Threads: any. Buffers may outlive the pool.
class BufferPool {
 public:
  // Keeps at most so many bytes of free buffers.
  explicit BufferPool(std::size_t kept_bytes);

  struct Buffer {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  // A buffer of `bytes`, with anything in it. Throws std::bad_alloc.
  Buffer take(std::size_t bytes);

  static constexpr std::size_t kPooled = 1 << 20;  // bytes of a buffer that is kept

 private:
  struct Free;
  std::shared_ptr<Free> free_;
};

}  // namespace convoy::server::transport
