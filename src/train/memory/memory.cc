#include "convoy/train/memory.h"

#include <c10/core/CPUAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>

#include "train/memory/block_cache.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONVOY_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CONVOY_SANITIZED 1
#endif
#endif

namespace convoy::train {
namespace {

std::size_t usable_memory() {
  const auto pages = static_cast<std::size_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  std::size_t bytes = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::ifstream file("/sys/fs/cgroup/memory.max");
  if (std::size_t limit = 0; file >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

class LargeBlockAllocator final : public c10::Allocator {
 public:
  LargeBlockAllocator(const LargeBlockOptions& options, c10::Allocator& previous)
      : cache(options),
        smallest_(std::max<std::size_t>(options.smallest, 1)),
        previous_(previous),
        previous_free_(previous.raw_deleter()) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes < smallest_) {
      c10::DataPtr data = previous_.allocate(bytes);
      void* block = data.release_context();
      return {block, block, &free_block, cpu};
    }
    void* block = cache.allocate(bytes);
    if (block == nullptr) {
      c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "not enough memory on the CPU: ", bytes,
                       " bytes wanted, ", cache.stats().live_bytes, " held by large tensors");
    }
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return {block, block, &free_block, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  BlockCache cache;

 private:
  static void free_block(void* block);

  const std::size_t smallest_;
  c10::Allocator& previous_;
  const c10::DeleterFnPtr previous_free_;
};

// LibTorch has one CPU allocator per process, and its deleters are plain functions; hence the one
// pointer. The object is leaked on purpose: tensors with static lifetime are freed after it would
// be.
std::atomic<LargeBlockAllocator*> installed{nullptr};

// Also gets blocks that the previous allocator made: small ones, and those that somebody allocated
// with raw_allocate before the switch and frees with raw_deallocate after it.
void LargeBlockAllocator::free_block(void* block) {
  if (block == nullptr) return;
  LargeBlockAllocator& self = *installed.load(std::memory_order_acquire);
  if (BlockCache::may_own(block) && self.cache.free(block)) {
    c10::profiledCPUMemoryReporter().Delete(block);
    return;
  }
  self.previous_free_(block);
}

}  // namespace

bool keep_large_blocks(const LargeBlockOptions& options) {
#ifdef CONVOY_SANITIZED
  return false;
#else
  // Ranks may be threads of one process.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  c10::Allocator* previous = c10::GetCPUAllocator();
  if (installed.load() != nullptr || previous == nullptr || previous->raw_deleter() == nullptr) {
    return false;
  }
  LargeBlockOptions chosen = options;
  chosen.max_cached = most_cached(options, usable_memory());
  installed.store(new LargeBlockAllocator(chosen, *previous), std::memory_order_release);
  c10::SetCPUAllocator(installed.load());
  return true;
#endif
}

LargeBlockStats large_block_stats() {
  const LargeBlockAllocator* allocator = installed.load(std::memory_order_acquire);
  return allocator == nullptr ? LargeBlockStats{} : allocator->cache.stats();
}

void release_large_blocks() {
  if (auto* allocator = installed.load(std::memory_order_acquire))
    allocator->cache.release_cached();
}

}  // namespace convoy::train
