// Large blocks of memory, kept for reuse. Free of Torch; train/memory.cc makes it LibTorch's
// allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "convoy/train/memory.h"

namespace convoy::train {

// What LargeBlockOptions::max_cached means, where this host's memory is `usable` bytes.
std::size_t most_cached(const LargeBlockOptions& options, std::size_t usable);

// Blocks come from mmap, each of one of 8 sizes per power of two, and return to a list of their
// size. A request takes the block of its size that was freed last: the one most likely in cache.
//
// Why: glibc gives each large block back to the kernel when it is freed, so every training step
// faults in, zeroes and unmaps its gigabyte of activations again. All functions are safe from any
// thread; one mutex, since a training step makes thousands of large allocations, not millions.
class BlockCache {
 public:
  explicit BlockCache(const LargeBlockOptions& options);
  ~BlockCache();  // unmaps the cached blocks; live ones stay, and may not be freed afterwards
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Page-aligned memory for `bytes` > 0; the contents are undefined. nullptr when the kernel has
  // none even after everything cached was given back.
  void* allocate(std::size_t bytes);
  // False, and nothing done, when the block is not of this cache.
  bool free(void* block);
  // Whether a pointer can be a block of this cache at all; cheap, no lock.
  static bool may_own(const void* block) {
    return (reinterpret_cast<std::uintptr_t>(block) & (kPage - 1)) == 0;
  }

  void release_cached();
  LargeBlockStats stats() const;

  // The size of block that serves a request.
  static std::size_t rounded(std::size_t bytes);

 private:
  static constexpr std::size_t kPage = 4096;

  struct Cached {
    void* block;
    std::size_t size;
  };
  using Age = std::list<Cached>;  // the longest unused first

  void* map(std::size_t size);
  void evict_until(std::size_t cached_bytes);  // with the mutex held

  const LargeBlockOptions options_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> live_;
  std::unordered_map<std::size_t, std::vector<Age::iterator>> free_;
  Age age_;
  LargeBlockStats stats_;
};

}  // namespace convoy::train
