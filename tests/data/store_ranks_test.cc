// A store over communicators: ranks are threads, and in processes that mpirun started.
#include <gtest/gtest.h>

#include "convoy/data/comm_peers.h"
#include "convoy/data/store_source.h"
#include "tests/comm/ranks_main.h"
#include "tests/data/thread_peers.h"

namespace {

using namespace convoy::data;

void check_store(const convoy::comm::Communicator& all, int groups) {
  const auto source = NumberedRecords::random(400, 0, 9000);
  CommPeers peers(all);
  StoreOptions options;
  options.groups = groups;
  options.segment = 100'000;
  options.host_memory = std::uint64_t{1} << 30;
  options.check = true;
  Store store(source, peers, options);
  const auto members = static_cast<std::size_t>(store.members());
  ASSERT_EQ(store.member(), all.rank() % store.members());
  for (std::uint64_t generation = 0; generation < 4; ++generation) {
    const auto order = store_order(400, 3, {0, generation, {}});
    const std::uint64_t before = store.held_bytes();
    const ShuffleReport report = store.arrange(order);
    EXPECT_LE(report.peak, std::max(before, store.held_bytes()) + 600'000);
    std::vector<std::byte> scratch;
    for (std::size_t p = 0; p < order.size(); ++p) {
      const bool mine = p % members == static_cast<std::size_t>(store.member());
      ASSERT_EQ(store.holds(order[p]), mine);
      if (!mine) continue;
      const auto content = NumberedRecords::content(order[p], source->length(order[p]));
      ASSERT_TRUE(std::ranges::equal(store.read(order[p], scratch).bytes, content));
    }
  }
}

TEST(StoreOverRanks, IsShuffled) { check_store(convoy::comm::test_world().communicator(), 1); }

TEST(StoreOverRanks, InGroups) {
  if (convoy::comm::test_world().size() % 2 == 0)
    check_store(convoy::comm::test_world().communicator(), 2);
  check_store(convoy::comm::test_world().communicator(), convoy::comm::test_world().size());
}

// All ranks of the test are on one host.
TEST(StoreOverRanks, WithOneCopyOnAHost) {
  const auto& all = convoy::comm::test_world().communicator();
  const auto source = NumberedRecords::random(400, 0, 9000);
  CommPeers peers(all);
  StoreOptions options;
  options.placement = Placement::host;
  options.host_memory = std::uint64_t{1} << 30;
  Store store(source, peers, options);
  EXPECT_EQ(store.members(), 1);
  EXPECT_EQ(store.need().part,
            (source->bytes({0, 400}) + static_cast<std::uint64_t>(all.size()) - 1) /
                static_cast<std::uint64_t>(all.size()));
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < 400; ++i) {
    const auto content = NumberedRecords::content(i, source->length(i));
    ASSERT_TRUE(std::ranges::equal(store.read(i, scratch).bytes, content));
  }
  EXPECT_TRUE(scratch.empty()) << "a copy";
  all.barrier();
}

TEST(StoreOverRanks, ThatAreThreads) {
  if (convoy::comm::test_world().rank() != 0) return;
  convoy::comm::World::run_threads(
      4, [](convoy::comm::World& world) { check_store(world.communicator(), 2); });
}

}  // namespace
