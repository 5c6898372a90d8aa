#include "train/memory/block_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace {

using convoy::train::BlockCache;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockCache, SizesWasteAnEighthAtMost) {
  std::size_t last = 0;
  for (std::size_t bytes = 4096; bytes < 64 * kMiB; bytes += bytes / 37 + 1) {
    const std::size_t size = BlockCache::rounded(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size - bytes, std::max<std::size_t>(4095, bytes / 8));
    EXPECT_EQ(size % 4096, 0u);
    EXPECT_GE(size, last);
    EXPECT_EQ(BlockCache::rounded(size), size);
    last = size;
  }
}

TEST(BlockCache, ProcessesOfAHostShareAQuarterOfItsMemory) {
  using convoy::train::most_cached;
  EXPECT_EQ(most_cached({}, 64 * kMiB), 16 * kMiB);
  EXPECT_EQ(most_cached({.processes = 8}, 64 * kMiB), 2 * kMiB);
  EXPECT_EQ(most_cached({.max_cached = 5 * kMiB, .processes = 8}, 64 * kMiB), 5 * kMiB);
}

TEST(BlockCache, ReusesTheBlockFreedLast) {
  BlockCache cache({.max_cached = 64 * kMiB});
  void* a = cache.allocate(3 * kMiB);
  void* b = cache.allocate(3 * kMiB);
  std::memset(a, 1, 3 * kMiB);
  std::memset(b, 2, 3 * kMiB);
  EXPECT_NE(a, b);
  EXPECT_TRUE(cache.free(b));
  EXPECT_TRUE(cache.free(a));
  EXPECT_EQ(cache.allocate(3 * kMiB - 5), a);
  EXPECT_EQ(cache.allocate(3 * kMiB), b);
  EXPECT_EQ(cache.stats().mapped, 2u);
  EXPECT_EQ(cache.stats().reused, 2u);
  EXPECT_EQ(cache.stats().cached_bytes, 0u);
  EXPECT_EQ(cache.stats().live_bytes, 6 * kMiB);
  cache.free(a);
  cache.free(b);
}

TEST(BlockCache, IsBoundedAndEvictsTheLongestUnused) {
  BlockCache cache({.max_cached = 5 * kMiB});
  void* blocks[4];
  for (auto& block : blocks) block = cache.allocate(2 * kMiB);
  for (auto& block : blocks) cache.free(block);
  EXPECT_EQ(cache.stats().cached_bytes, 4 * kMiB);
  EXPECT_EQ(cache.stats().unmapped, 2u);
  EXPECT_EQ(cache.allocate(2 * kMiB), blocks[3]);
  EXPECT_EQ(cache.allocate(2 * kMiB), blocks[2]);
  cache.free(blocks[3]);
  cache.free(blocks[2]);
  void* large = cache.allocate(6 * kMiB);  // more than may be kept
  cache.free(large);
  EXPECT_EQ(cache.stats().unmapped, 3u);
  EXPECT_EQ(cache.stats().cached_bytes, 4 * kMiB);
  cache.release_cached();
  EXPECT_EQ(cache.stats().cached_bytes, 0u);
  EXPECT_EQ(cache.stats().peak_bytes, 10 * kMiB);
}

TEST(BlockCache, LeavesForeignMemoryAlone) {
  BlockCache cache({.max_cached = kMiB});
  alignas(4096) static char foreign[4096];
  EXPECT_FALSE(cache.free(foreign));
  EXPECT_FALSE(BlockCache::may_own(foreign + 64));
}

TEST(BlockCache, RefusesWhatTheMachineHasNot) {
  BlockCache cache({.max_cached = kMiB});
  EXPECT_EQ(cache.allocate(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(cache.allocate(SIZE_MAX), nullptr);
}

TEST(BlockCache, ServesManyThreads) {
  BlockCache cache({.max_cached = 8 * kMiB});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t bytes = (i % 5 + 1) * 300'000;
        auto* block = static_cast<char*>(cache.allocate(bytes));
        block[0] = block[bytes - 1] = static_cast<char>(t);
        std::this_thread::yield();
        ASSERT_EQ(block[0], t);
        ASSERT_EQ(block[bytes - 1], t);
        ASSERT_TRUE(cache.free(block));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(cache.stats().live_bytes, 0u);
  EXPECT_LE(cache.stats().cached_bytes, 8 * kMiB);
}

}  // namespace
