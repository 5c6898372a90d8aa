#include "convoy/data/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <numeric>

#include "convoy/data/store_source.h"
#include "data/store/admit.h"
#include "data/store/need.h"
#include "data/store/region.h"
#include "tests/data/packed_support.h"
#include "tests/data/resident_peers.h"
#include "tests/data/support.h"
#include "tests/data/thread_peers.h"

namespace convoy::data {
namespace {

constexpr std::size_t kSegment = 256 << 10;

StoreOptions options_for(int groups = 1) {
  StoreOptions options;
  options.groups = groups;
  options.segment = kSegment;
  options.host_memory = std::uint64_t{1} << 30;
  options.check = true;
  return options;
}

void expect_records(const Store& store, const NumberedRecords& source) {
  std::vector<std::byte> scratch;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < store.size(); ++i) {
    if (!store.holds(i)) continue;
    const Record record = store.read(i, scratch);
    EXPECT_TRUE(scratch.empty()) << "a copy";
    const auto content = NumberedRecords::content(i, source.length(i));
    ASSERT_TRUE(std::ranges::equal(record.bytes, content)) << i;
    EXPECT_EQ(record.label, source.label(i));
    bytes += record.bytes.size();
  }
  EXPECT_EQ(bytes, store.held_bytes());
}

// Who holds record i of a world that was made this way, and arranged in these orders.
using Owners = std::vector<std::vector<int>>;

Owners owners(int world, const std::shared_ptr<NumberedRecords>& source,
              const StoreOptions& options, const std::vector<Position>& orders) {
  Owners all(source->size());
  std::mutex mutex;
  run_ranks(world, [&](Peers& all_peers) {
    ResidentWatch watch;
    ResidentPeers peers(all_peers, watch);
    Store store(source, peers, options);
    for (const Position& position : orders) {
      const std::uint64_t before = store.held_bytes();
      const auto most = watched_shuffle(store, store_order(source->size(), 7, position), watch);
      EXPECT_LE(most, std::max(before, store.held_bytes()) + 2 * kSegment);
    }
    expect_records(store, *source);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < source->size(); ++i) {
      if (store.holds(i)) all[i].push_back(peers.rank());
    }
  });
  for (auto& ranks : all) std::sort(ranks.begin(), ranks.end());
  return all;
}

TEST(Store, EveryGroupHoldsEveryRecordOnce) {
  const auto source = NumberedRecords::random(500, 0, 3000);
  for (const auto& [world, groups] : {std::pair{1, 1}, {2, 1}, {3, 3}, {4, 2}, {8, 1}}) {
    const Owners loaded = owners(world, source, options_for(groups), {});
    for (const auto& ranks : loaded) {
      ASSERT_EQ(ranks.size(), static_cast<std::size_t>(groups));
      for (int group = 0; group < groups; ++group)
        EXPECT_EQ(ranks[static_cast<std::size_t>(group)] / (world / groups), group);
    }
  }
}

TEST(Store, PartsAreConsecutiveAndEvenInBytes) {
  const auto source = NumberedRecords::random(1000, 100, 300);
  run_ranks(4, [&](Peers& peers) {
    Store store(source, peers, options_for());
    const double even = static_cast<double>(source->bytes({0, 1000})) / 4;
    EXPECT_NEAR(static_cast<double>(store.held_bytes()), even, 600);
    int edges = 0;
    for (std::size_t i = 1; i < 1000; ++i) edges += store.holds(i) != store.holds(i - 1);
    EXPECT_LE(edges, 2);
  });
}

TEST(Store, AShuffleGivesEachMemberItsPositions) {
  const auto source = NumberedRecords::random(701, 0, 5000);
  for (const int world : {1, 2, 3, 5, 8}) {
    std::vector<Position> orders;
    for (std::uint64_t generation = 0; generation < 5; ++generation)
      orders.push_back({generation, generation, {}});
    const Owners after = owners(world, source, options_for(), orders);
    const auto order = store_order(source->size(), 7, orders.back());
    for (std::size_t p = 0; p < order.size(); ++p)
      ASSERT_EQ(after[order[p]], std::vector{static_cast<int>(p) % world});
    // Who comes there at once holds the same.
    EXPECT_EQ(owners(world, source, options_for(), {orders.back()}), after);
  }
}

TEST(Store, ContentsStayIntactOverManyGenerations) {
  const auto source = NumberedRecords::random(300, 0, 20'000);
  std::vector<Position> orders;
  for (std::uint64_t generation = 0; generation < 40; ++generation)
    orders.push_back({0, generation, {}});
  owners(6, source, options_for(2), orders);  // compares contents
}

TEST(Store, WhereEveryRankHoldsEverythingNothingMoves) {
  const auto source = NumberedRecords::random(50, 1, 100);
  run_ranks(3, [&](Peers& peers) {
    Store store(source, peers, options_for(3));
    EXPECT_EQ(store.held(), 50u);
    EXPECT_EQ(store.arrange(store_order(50, 1, {0, 3, {}})).rounds, 0u);
  });
}

// Threads are ranks of one host.
TEST(Store, RanksOfAHostShareOneCopy) {
  const auto source = NumberedRecords::random(500, 0, 3000);
  std::mutex mutex;
  std::vector<const std::byte*> places;
  std::atomic<std::uint64_t> loaded = 0;
  run_ranks(3, [&](Peers& peers) {
    StoreOptions options = options_for();
    options.placement = Placement::host;
    double own = 0;
    options.tell = [&](double done, double) { own = done; };
    Store store(source, peers, options);
    loaded += static_cast<std::uint64_t>(own);
    EXPECT_EQ(store.need().part, (source->bytes({0, 500}) + 2) / 3);
    EXPECT_EQ(store.groups(), 3);
    EXPECT_EQ(store.held(), 500u);
    expect_records(store, *source);
    EXPECT_EQ(store.arrange(store_order(500, 1, {0, 3, {}})).rounds, 0u);
    std::vector<std::byte> scratch;
    const std::lock_guard lock(mutex);
    places.push_back(store.read(499, scratch).bytes.data());
  });
  EXPECT_EQ(loaded, source->bytes({0, 500}));  // each byte once
  EXPECT_EQ(std::count(places.begin(), places.end(), places[0]), 3);
}

TEST(Store, OneCopyForAHostNeedsMemoryForIt) {
  const auto source = NumberedRecords::random(500, 1000, 3000);
  run_ranks(2, [&](Peers& peers) {
    StoreOptions options = options_for();
    options.placement = Placement::host;
    options.host_memory = source->bytes({0, 500}) - 1;
    EXPECT_THROW(Store(source, peers, options), UsageError);
  });
}

TEST(Store, TakesTheBestPlaceThatFits) {
  const auto source = NumberedRecords::random(500, 2000, 4000);
  const std::uint64_t all = source->bytes({0, 500});
  run_ranks(4, [&](Peers& peers) {
    StoreOptions options = options_for();
    options.placement = Placement::best;
    options.host_memory = 4 * copy_need(*source, 4, 4).total();
    EXPECT_EQ(Store(source, peers, options).need().placement, Placement::host);
    options.host_memory -= 1;
    options.segment = 1;
    const StoreNeed files = Store(source, peers, options).need();
    EXPECT_EQ(files.placement, Placement::files) << "parts on one host need more than a copy";
    Store store(source, peers, options);
    EXPECT_EQ(store.held(), 0u);
    std::vector<std::byte> scratch;
    EXPECT_TRUE(std::ranges::equal(store.read(7, scratch).bytes,
                                   NumberedRecords::content(7, source->length(7))));
    EXPECT_EQ(store.arrange(store_order(500, 1, {0, 3, {}})).rounds, 0u);
  });
  // On hosts of their own they have more together than each alone.
  const Hosts apart{{{0}, 0}, 1, all * 2 / 3};
  const StoreOptions best{.placement = Placement::best, .segment = 1};
  EXPECT_EQ(choose(*source, 4, best, apart, true).placement, Placement::parts);
  EXPECT_EQ(choose(*source, 4, best, apart, true).groups, 2);
  // And where hosts can't share memory, a copy is not to be had.
  const Hosts together{{{0, 1, 2, 3}, 0}, 4, all * 2 / 3};
  EXPECT_EQ(choose(*source, 4, best, together, false).placement, Placement::parts);
  EXPECT_EQ(choose(*source, 4, best, together, true).placement, Placement::host);
}

TEST(Store, AnOrderThatIsInPlaceMovesNothing) {
  const auto source = NumberedRecords::random(50, 1, 100);
  run_ranks(2, [&](Peers& peers) {
    Store store(source, peers, options_for());
    EXPECT_GT(store.arrange(store_order(50, 1, {0, 3, {}})).rounds, 0u);
    EXPECT_EQ(store.arrange(store_order(50, 1, {0, 3, {}})).rounds, 0u);
    // Another order in each part.
    EXPECT_EQ(store.arrange(store_order(50, 1, {4, 3, {}, 2})).rounds, 0u);
  });
}

// Gaps that can't be released: on each rank the stream to itself begins with pages of its own, and
// goes on in pages that it shares with the stream to the other, which is far ahead there.
TEST(Store, GapsInMemoryAreClosedWhenTheyGrow) {
  constexpr std::size_t kCount = 240'000, kHalf = kCount / 2;
  const auto source = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(kCount, 31));
  run_ranks(2, [&](Peers& all_peers) {
    ResidentWatch watch;
    ResidentPeers peers(all_peers, watch);
    StoreOptions options = options_for();
    options.check = false;
    Store store(source, peers, options);
    std::vector<std::size_t> of[2];
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t at = i % kHalf, home = i / kHalf;
      const bool stays = at < kHalf / 3 || at % 4 == 0;
      of[stays ? home : 1 - home].push_back(i);
    }
    ASSERT_EQ(of[0].size(), of[1].size());
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < of[0].size(); ++i) {
      order.push_back(of[0][i]);
      order.push_back(of[1][i]);
    }
    const std::uint64_t before = store.held_bytes();
    watch = {records_of(store), {}, 0, 0};
    const ShuffleReport report = store.arrange(order);
    EXPECT_GT(report.compactions, 0u);
    EXPECT_LE(watch.most, std::max(before, store.held_bytes()) + 2 * kSegment);
    EXPECT_LE(report.peak, std::max(before, store.held_bytes()) + 2 * kSegment);
    expect_records(store, *source);
  });
}

TEST(Store, TwoMillionEmptyRecords) {
  constexpr std::size_t kCount = 2'000'000;
  const auto source = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(kCount, 0));
  run_ranks(3, [&](Peers& peers) {
    Store store(source, peers, options_for());
    EXPECT_NEAR(static_cast<double>(store.held()), kCount / 3.0, 2);
    store.arrange(store_order(kCount, 1, {0, 1, {}}));
    EXPECT_NEAR(static_cast<double>(store.held()), kCount / 3.0, 1);
    EXPECT_EQ(store.held_bytes(), 0u);
  });
}

TEST(Store, FewerRecordsThanRanks) {
  const auto source = NumberedRecords::random(2, 10, 20);
  const Owners after = owners(5, source, options_for(), {{0, 0, {}}, {0, 1, {}}});
  for (const auto& ranks : after) EXPECT_EQ(ranks.size(), 1u);
}

TEST(Peers, BroadcastBytesAndGatherNumbers) {
  for (const int world : {1, 2, 5}) {
    for (const std::size_t size : {0u, 1u, 3u, 1000u}) {
      std::vector<std::byte> sent(size);
      for (std::size_t i = 0; i < size; ++i) sent[i] = static_cast<std::byte>(i * 7 % 251);
      run_ranks(world, [&](Peers& peers) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(peers.rank()));
        if (peers.rank() == 0) bytes = sent;
        peers.broadcast(bytes);
        EXPECT_EQ(bytes, sent);
        const auto numbers = peers.gather_numbers(~static_cast<std::uint64_t>(peers.rank()));
        ASSERT_EQ(numbers.size(), static_cast<std::size_t>(world));
        for (std::uint64_t rank = 0; rank < numbers.size(); ++rank) EXPECT_EQ(numbers[rank], ~rank);
      });
    }
  }
}

TEST(Region, CostsMemoryFromTheFirstWriteUntilItIsReleased) {
  const std::size_t page = Region::page();
  Region region(100 * page - 7);
  const std::span<std::byte> bytes(region.data(), static_cast<std::size_t>(region.size()));
  EXPECT_EQ(resident_bytes(bytes), 0u);
  std::fill(bytes.begin(), bytes.end(), std::byte{1});
  EXPECT_EQ(resident_bytes(bytes), 100 * page);
  region.release(10, 100);
  EXPECT_EQ(resident_bytes(bytes), 10 * page);
  EXPECT_EQ(bytes[10 * page - 1], std::byte{1});
  EXPECT_EQ(bytes[10 * page], std::byte{0});
}

// Every rank gets this error.
template <class Error>
void expect_everywhere(int world, const std::shared_ptr<LoadableDataset>& source,
                       const StoreOptions& options, const std::vector<std::string>& parts) {
  run_ranks(world, [&](Peers& peers) {
    expect_error<Error>([&] { Store(source, peers, options); }, parts);
  });
}

TEST(Store, RefusesOnAllRanksAlike) {
  const auto source = NumberedRecords::random(1000, 1000, 3000);
  expect_everywhere<UsageError>(2, NumberedRecords::random(0, 0, 0), options_for(),
                                {"the data set holds no records"});
  expect_everywhere<UsageError>(4, source, options_for(3), {"4 ranks can't form 3 groups"});
  expect_everywhere<UsageError>(4, source, options_for(-1), {"4 ranks can't form -1 groups"});
  run_ranks(2, [&](Peers& peers) {
    StoreOptions options = options_for();
    if (peers.rank() == 1) options.host_memory = 200'000;  // one host is too small
    expect_error<UsageError>([&] { Store(source, peers, options); },
                             {"a rank of 2 needs", "of records, 512 KiB to shuffle", "of tables",
                              "may use 97.7 KiB, as the limit"});
  });
  source->bad = 777;
  expect_everywhere<Failure>(3, source, options_for(), {"record 777 is damaged"});
}

TEST(Store, FormsAsManyGroupsAsFit) {
  const auto source = NumberedRecords::random(1000, 2000, 2000);
  run_ranks(8, [&](Peers& peers) {
    StoreOptions options = options_for(0);
    EXPECT_EQ(Store(source, peers, options).groups(), 8);
    options.host_memory = 8 * store_need(*source, 8, 4, kSegment).total();
    EXPECT_EQ(Store(source, peers, options).groups(), 4);
    options.host_memory = 8 * store_need(*source, 8, 1, kSegment).total();
    EXPECT_EQ(Store(source, peers, options).groups(), 1);
    options.host_memory -= 1;
    expect_error<UsageError>([&] { Store(source, peers, options); }, {"a rank of 8 needs"});
  });
}

TEST(Store, LeavesMemoryForTraining) {
  constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
  EXPECT_EQ(memory_for_rank(0, 252 * kGib, 1), 189 * kGib);
  EXPECT_EQ(memory_for_rank(0, 252 * kGib, 4), 189 * kGib / 4);
  EXPECT_EQ(memory_for_rank(100 * kGib, 252 * kGib, 4), 25 * kGib);
  EXPECT_EQ(memory_for_rank(251 * kGib, 252 * kGib, 1), 251 * kGib);
  EXPECT_EQ(memory_for_rank(300 * kGib, 252 * kGib, 1), 252 * kGib) << "there is no more";
}

// Tables are counted: with the data set's order, 12 bytes for each record on every rank.
TEST(Store, CountsWhatItNeedsForTheOrderOfAnEpoch) {
  constexpr std::size_t kCount = 1'000'000;
  const auto source = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(kCount, 0));
  EXPECT_EQ(files_need(*source, 4).tables, 12 * kCount);
  EXPECT_EQ(copy_need(*source, 4, 4).tables, (12 + 12) * kCount);
  EXPECT_EQ(store_need(*source, 4, 1, kSegment).tables, (12 + 48 / 4) * kCount);
}

class PackedStore : public testing::Test {
 protected:
  void SetUp() override {
    Members members;
    for (int i = 0; i < 40; ++i) {
      members.push_back({"c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg",
                         as_bytes("\xff\xd8\xff" + std::string(100 + i, 'a'))});
    }
    tar_ = scratch_.path() + "/a.tar";
    write_bytes(tar_, make_tar(members));
    index_tar(tar_);
  }

  Scratch scratch_;
  std::string tar_;
};

TEST_F(PackedStore, HoldsPackedFilesAndTheSameOneTwice) {
  const auto once = std::make_shared<PackedFiles>(std::vector{tar_});
  const auto source = std::make_shared<PackedFiles>(std::vector{tar_, tar_});
  run_ranks(3, [&](Peers& peers) {
    Store store(source, peers, options_for());
    store.arrange(store_order(source->size(), 3, {0, 1, {}}));
    EXPECT_EQ(store.fingerprint(), source->fingerprint());
    EXPECT_EQ(store.classes(), source->classes());
    std::vector<std::byte> a, b;
    for (std::size_t i = 0; i < store.size(); ++i) {  // held or not
      const Record record = store.read(i, a);
      EXPECT_EQ(store.holds(i), a.empty());
      EXPECT_EQ(as_text(record.bytes), as_text(once->read(i % 40, b).bytes));
      EXPECT_EQ(record.label, source->label(i));
      EXPECT_EQ(store.key(i), source->key(i));
      a.clear();
    }
  });
}

TEST_F(PackedStore, NamesARecordThatIsDamaged) {
  const auto source = std::make_shared<PackedFiles>(std::vector{tar_});
  auto bytes = read_file(tar_);
  bytes[512 * 3 + 50] ^= std::byte{1};  // of the second member
  write_bytes(tar_, bytes);
  expect_everywhere<UsageError>(2, source, options_for(), {tar_ + ": record c1/1.jpg", "damaged"});
}

TEST_F(PackedStore, NamesAFileThatHasShrunk) {
  const auto source = std::make_shared<PackedFiles>(std::vector{tar_});
  std::filesystem::resize_file(tar_, 5000);
  expect_everywhere<Failure>(2, source, options_for(), {tar_});
}

}  // namespace
}  // namespace convoy::data
