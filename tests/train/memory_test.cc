// A program of its own: the allocator stays for the rest of the process.
#include "convoy/train/memory.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

using namespace convoy::train;

// Freed by a static destructor, after main and after everything the test made.
torch::Tensor& survivor() {
  static torch::Tensor tensor;
  return tensor;
}

TEST(KeepLargeBlocks, ServesTensorsFromKeptBlocks) {
  survivor();
  EXPECT_EQ(large_block_stats().live_bytes, 0u);
  auto before = torch::ones({1 << 20});
  void* raw_before = c10::GetCPUAllocator()->raw_allocate(1 << 22);
  // Ranks that are threads of one process may call it at the same time: one of them sets it.
  std::atomic<int> waiting{0}, set{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&] {
      for (++waiting; waiting < 8;) std::this_thread::yield();
      set += keep_large_blocks({.smallest = 1 << 20, .max_cached = 64 << 20});
    });
  }
  for (std::thread& rank : ranks) rank.join();
  if (set == 0) GTEST_SKIP() << "a sanitizer build keeps LibTorch's allocator";
  EXPECT_EQ(set, 1);
  EXPECT_FALSE(keep_large_blocks());
  c10::GetCPUAllocator()->raw_deallocate(raw_before);  // allocated by the one before

  const void* place = nullptr;
  {
    const auto tensor = torch::full({1 << 20}, 2.0f);
    place = tensor.data_ptr();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % 64, 0u);
    EXPECT_EQ(large_block_stats().live_bytes, std::size_t{4} << 20);
    EXPECT_EQ((tensor + before).sum().item<double>(), 3 << 20);
  }
  EXPECT_EQ(torch::empty({1 << 20}).data_ptr(), place);

  const auto stats = large_block_stats();
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_GT(stats.reused, 0u);
  const auto small = torch::ones({100});
  EXPECT_EQ(large_block_stats().reused, stats.reused);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data_ptr()) % 64, 0u);

  before.resize_({1 << 21}).fill_(1);
  EXPECT_EQ(before.sum().item<double>(), 1 << 21);
  EXPECT_EQ(torch::empty({0}).numel(), 0);
  before = torch::Tensor();

  release_large_blocks();
  EXPECT_EQ(large_block_stats().cached_bytes, 0u);
  EXPECT_THROW(torch::empty({std::int64_t{1} << 58}), c10::Error);
  survivor() = torch::ones({1 << 20});
}

}  // namespace
