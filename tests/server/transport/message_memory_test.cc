// Memory that one message leaves to the next.
#include "server/transport/message_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "convoy/base/system.h"
#include "tests/base/sanitizers.h"

namespace convoy::server::transport {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

// A message that comes and goes. Written, as messages are: huge pages of which nothing was would be
// found by whoever has the memory next.
void pass(MessageMemory& memory, std::size_t size, std::size_t at = 0) {
  const auto run = memory.take(size, at);
  std::fill(run.bytes.begin(), run.bytes.end(), std::byte{1});
}

TEST(MessageMemory, GivesMemoryToTheNextMessage) {
  constexpr std::size_t kSize = 3 * kMega;
  MessageMemory memory(8 * kMega);
  auto first = memory.take(kSize);
  const std::byte* at = first.bytes.data();
  const auto beside = memory.take(kSize);
  EXPECT_NE(beside.bytes.data(), at);
  first = {};
  const auto again = memory.take(kSize - 100);
  EXPECT_EQ(again.bytes.data(), at);
  EXPECT_EQ(again.bytes.size(), kSize - 100);
  EXPECT_EQ(memory.take(10).bytes.size(), 10u);
}

TEST(MessageMemory, KeepsOnlySoMuch) {
  MessageMemory::Run left;
  {
    MessageMemory memory(1 * kMega);
    pass(memory, 3 * kMega);  // given back, and too much to keep
    EXPECT_EQ(memory.kept(), 0u);
    left = memory.take(1 * kMega);
  }
  left.bytes[0] = std::byte{1};  // it outlives the pool
}

TEST(MessageMemory, OneThatIsTooLargeToKeepLeavesTheOthers) {
  MessageMemory memory(8 * kMega);
  pass(memory, 4 * kMega);
  EXPECT_EQ(memory.kept(), 4 * kMega);
  pass(memory, 9 * kMega);
  EXPECT_EQ(memory.kept(), 4 * kMega);
  const auto taken = memory.take(4 * kMega);
  EXPECT_EQ(memory.kept(), 0u);
}

// Wherever its numbers lie.
TEST(MessageMemory, KeepsAMessageOfAllThatItMayKeep) {
  for (const std::size_t at : {0u, 4u, 63u}) {
    MessageMemory memory(8 * kMega);
    pass(memory, 4 * kMega);
    pass(memory, 8 * kMega, at);
    EXPECT_GE(memory.kept(), 8 * kMega) << at;
    const auto taken = memory.take(4 * kMega);
    EXPECT_EQ(memory.kept(), 0u) << at;
  }
}

TEST(MessageMemory, KeepsMoreWhereMessagesBecomeLarger) {
  MessageMemory memory(1 * kMega);
  memory.keep(4 * kMega);
  pass(memory, 4 * kMega, 4);
  EXPECT_GE(memory.kept(), 4 * kMega);
}

// Messages are charged by their bytes, not by the pages that they begin.
TEST(MessageMemory, TakesLittleMoreThanItsMessages) {
  if (convoy::test::kSanitized) GTEST_SKIP() << "sanitizers have pages of their own";
  constexpr std::size_t kSize = 2 * kMega + 1;
  constexpr std::size_t kCount = 64;
  MessageMemory memory(0);
  std::vector<MessageMemory::Run> runs;
  runs.reserve(kCount);
  const std::uint64_t before = resident_memory();
  ASSERT_GT(before, 0u);
  for (std::size_t i = 0; i < kCount; ++i) {
    runs.push_back(memory.take(kSize));
    std::fill(runs.back().bytes.begin(), runs.back().bytes.end(), std::byte{1});
  }
  EXPECT_LT(resident_memory() - before, kCount * kSize * 21 / 20);
}

}  // namespace
}  // namespace convoy::server::transport
