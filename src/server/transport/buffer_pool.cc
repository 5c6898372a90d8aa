#include "server/transport/buffer_pool.h"

#include <memory>
#include <mutex>
#include <vector>

namespace convoy::server::transport {

struct BufferPool::Free {
  std::mutex mutex;
  std::size_t most = 0;
  std::vector<std::unique_ptr<std::byte[]>> buffers;
};

BufferPool::BufferPool(std::size_t kept_bytes) : free_(std::make_shared<Free>()) {
  free_->most = kept_bytes / kPooled;
  free_->buffers.reserve(free_->most);
}

BufferPool::Buffer BufferPool::take(std::size_t bytes) {
  // Smaller ones are the allocator's, which keeps them as well.
  if (bytes > kPooled || bytes <= kPooled / 2) {
    std::shared_ptr<std::byte[]> owner(new std::byte[bytes]);  // not cleared
    return {{owner.get(), bytes}, owner};
  }
  std::unique_ptr<std::byte[]> buffer;
  {
    const std::lock_guard lock(free_->mutex);
    if (!free_->buffers.empty()) {
      buffer = std::move(free_->buffers.back());
      free_->buffers.pop_back();
    }
  }
  if (!buffer) buffer.reset(new std::byte[kPooled]);
  std::byte* begin = buffer.get();
  std::shared_ptr<const void> owner(begin, [kept = std::weak_ptr(free_)](std::byte* returned) {
    std::unique_ptr<std::byte[]> back(returned);
    const auto free = kept.lock();
    if (!free) return;
    const std::lock_guard lock(free->mutex);
    if (free->buffers.size() < free->most) free->buffers.push_back(std::move(back));
  });
  buffer.release();  // the pointer above has it
  return {{begin, bytes}, std::move(owner)};
}

}  // namespace convoy::server::transport
