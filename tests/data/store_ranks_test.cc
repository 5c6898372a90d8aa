// A store over communicators: ranks are threads, and in processes that mpirun started.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/data/comm_peers.h"
#include "convoy/data/store_source.h"
#include "tests/base/patience.h"
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

// Counts what ranks tell each other.
class Counted final : public Peers {
 public:
  Counted(Peers& peers, std::atomic<int>& count) : peers_(peers), count_(count) {}
  int rank() const override { return peers_.rank(); }
  int size() const override { return peers_.size(); }
  std::vector<std::string> gather(const std::string& text) override {
    auto all = peers_.gather(text);
    ++count_;
    return all;
  }
  std::unique_ptr<Exchange> start_exchange(std::span<const std::byte> send,
                                           std::span<const std::size_t> send_counts,
                                           std::span<std::byte> receive,
                                           std::span<const std::size_t> receive_counts,
                                           std::span<const std::size_t> offsets) override {
    return peers_.start_exchange(send, send_counts, receive, receive_counts, offsets);
  }
  std::unique_ptr<Peers> split(int color) override { return peers_.split(color); }

 private:
  Peers& peers_;
  std::atomic<int>& count_;
};

// On a disk that is so slow that loading lasts until the others have been told twice that it does.
class Slow final : public NumberedRecords {
 public:
  explicit Slow(std::atomic<int>* told)
      : NumberedRecords(std::vector<std::uint64_t>(30, 100)), told_(told) {}
  void load(Range records, std::span<std::byte> to) const override {
    const int before = told_ != nullptr ? told_->load() : 0;
    const auto start = convoy::Clock::now();
    while (told_ != nullptr && told_->load() < before + 2 &&
           convoy::seconds_since(start) < convoy::test::patience_s()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(told_ == nullptr || told_->load() >= before + 2) << "the others only wait";
    NumberedRecords::load(records, to);
  }

 private:
  std::atomic<int>* told_;
};

// Ranks wait for a message of another for so long, but for a slow disk as long as it takes.
TEST(StoreOverRanks, HearOfARankThatIsStillLoading) {
  if (convoy::comm::test_world().rank() != 0) return;
  for (const Placement placement : {Placement::parts, Placement::host}) {
    std::atomic<int> told = 0;
    convoy::comm::World::run_threads(3, [&](convoy::comm::World& world) {
      CommPeers peers(world.communicator());
      std::atomic<int> not_counted = 0;
      Counted counted(peers, world.rank() == 0 ? told : not_counted);
      StoreOptions options;
      options.placement = placement;
      options.host_memory = std::uint64_t{1} << 30;
      const Store store(std::make_shared<Slow>(world.rank() == 1 ? &told : nullptr), counted,
                        options);
    });
  }
}

TEST(StoreOverRanks, ThatAreThreads) {
  if (convoy::comm::test_world().rank() != 0) return;
  convoy::comm::World::run_threads(
      4, [](convoy::comm::World& world) { check_store(world.communicator(), 2); });
}

}  // namespace
