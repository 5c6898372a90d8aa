#include "convoy/data/store_source.h"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <set>

#include "convoy/base/system.h"
#include "tests/data/support.h"
#include "tests/data/thread_peers.h"

namespace convoy::data {
namespace {

struct Job {
  std::size_t count = 101;
  std::size_t batch = 12;
  int world = 1;
  int groups = 1;
  bool drop_last = false;
  ShuffleOptions shuffle = {};
  Position from = {};
};

// What each batch held, over all ranks, ascending; an empty one for the end of an epoch.
struct Course {
  std::vector<std::vector<std::size_t>> batches;
  Position position;
  std::vector<bool> over;  // after each call
  std::uint64_t shuffles = 0;
};

LoaderOptions loader_options(const Job& job, int rank) {
  LoaderOptions options;
  options.batch = job.batch;
  options.rank = rank;
  options.world = job.world;
  options.seed = 5;
  options.drop_last = job.drop_last;
  return options;
}

// So many calls of next() on every rank.
Course run(const Job& job, std::size_t calls) {
  const auto records = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(job.count, 6));
  Course course;
  course.batches.resize(calls);
  std::mutex mutex;
  std::vector<std::vector<std::size_t>> shares(calls);
  run_ranks(job.world, [&](Peers& peers) {
    StoreOptions options;
    options.groups = job.groups;
    options.host_memory = std::uint64_t{1} << 30;
    options.check = true;
    const auto store = std::make_shared<Store>(records, peers, options);
    StoreSource source(store, {}, loader_options(job, peers.rank()), job.shuffle);
    source.seek(job.from);
    for (std::size_t call = 0; call < calls; ++call) {
      const Batch* batch = source.next();
      const std::lock_guard lock(mutex);
      if (peers.rank() == 0) course.over.push_back(source.epoch_over());
      if (batch == nullptr) continue;
      shares[call].push_back(batch->size());
      for (std::size_t k = 0; k < batch->size(); ++k) {
        const std::size_t i = batch->samples[k];
        EXPECT_TRUE(store->holds(i)) << i;
        course.batches[call].push_back(i);
        EXPECT_EQ(batch->labels[k], records->label(i));
        // Pixels are the record's.
        const auto bytes = NumberedRecords::content(i, 6);
        EXPECT_FLOAT_EQ(batch->images[k * 6], static_cast<float>(bytes[0]) / 255);
      }
    }
    const std::lock_guard lock(mutex);
    course.position = source.position();
    course.shuffles += source.last_shuffle().rounds > 0 ? 1 : 0;
  });
  for (auto& batch : course.batches) std::sort(batch.begin(), batch.end());
  for (const auto& sizes : shares) {
    if (sizes.empty()) continue;
    EXPECT_EQ(sizes.size(), static_cast<std::size_t>(job.world)) << "some rank has no batch";
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    EXPECT_LE(*most - *least, 1u);
  }
  return course;
}

// Everything since the last end of an epoch, ascending.
std::vector<std::size_t> all_of(const std::vector<std::vector<std::size_t>>& batches) {
  std::vector<std::size_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::size_t> everything(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// Records with lists of labels.
class ListedRecords final : public NumberedRecords {
 public:
  using NumberedRecords::NumberedRecords;
  bool label_lists() const override { return true; }
  std::vector<std::int64_t> labels(std::size_t i) const override {
    return std::vector<std::int64_t>(i % 4, label(i));
  }
};

TEST(StoreSource, ListsOfLabelsComeWithTheRecordsWhereverTheyAre) {
  const auto records = std::make_shared<ListedRecords>(std::vector<std::uint64_t>(31, 6));
  run_ranks(3, [&](Peers& peers) {
    const auto store = std::make_shared<Store>(records, peers);
    EXPECT_TRUE(store->label_lists());
    Job job;
    job.world = 3;
    StoreSource source(store, {}, loader_options(job, peers.rank()));
    for (int call = 0; call < 10; ++call) {
      const Batch* batch = source.next();
      if (batch == nullptr) continue;
      ASSERT_EQ(batch->label_lists.size(), batch->size());
      for (std::size_t k = 0; k < batch->size(); ++k)
        EXPECT_EQ(batch->label_lists[k], records->labels(batch->samples[k]));
    }
  });
}

TEST(StoreSource, GlobalBatchesAreThoseOfFilesAtAnyWorldSize) {
  const auto records = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(101, 6));
  Loader files(records, {}, loader_options({}, 0));
  std::vector<std::vector<std::size_t>> expected;
  for (int call = 0; call < 20; ++call) {
    const Batch* batch = files.next();
    expected.emplace_back();
    if (batch == nullptr) continue;
    expected.back().assign(batch->samples.begin(), batch->samples.end());
    std::sort(expected.back().begin(), expected.back().end());
  }
  for (const auto& [world, groups] :
       {std::pair{1, 1}, {2, 1}, {3, 1}, {5, 1}, {8, 1}, {8, 8}, {6, 2}, {4, 4}}) {
    EXPECT_EQ(run({.world = world, .groups = groups}, 20).batches, expected)
        << world << " ranks in " << groups << " groups";
  }
}

// An epoch in pieces, each at another world size.
void expect_exactly_once(Job job, const std::vector<std::pair<int, int>>& worlds, int epochs) {
  constexpr std::size_t kCalls = 2;
  std::vector<std::vector<std::size_t>> epoch;
  std::size_t piece = 0;
  for (int done = 0; done < epochs;) {
    std::tie(job.world, job.groups) = worlds[piece++ % worlds.size()];
    const Course course = run(job, kCalls);
    for (const auto& batch : course.batches) {
      epoch.push_back(batch);
      if (!batch.empty()) continue;
      EXPECT_EQ(all_of(epoch), everything(job.count)) << "epoch " << done;
      epoch.clear();
      ++done;
    }
    job.from = course.position;
  }
}

const std::vector<std::pair<int, int>> kWorlds = {{2, 1}, {3, 1}, {1, 1}, {4, 2}, {5, 1}, {8, 1}};

TEST(StoreSource, AnEpochGoesOnAtAnyWorldSize) {
  expect_exactly_once({.count = 53, .batch = 7}, kWorlds, 4);
}

TEST(StoreSource, AlsoWithShufflesInTheMiddle) {
  expect_exactly_once({.count = 53, .batch = 7, .shuffle = {.every_epochs = 0, .every_steps = 3}},
                      kWorlds, 4);
  expect_exactly_once({.count = 53, .batch = 7, .shuffle = {.every_epochs = 2, .every_steps = 1}},
                      kWorlds, 3);
}

TEST(StoreSource, AlsoWithoutAnyShuffle) {
  expect_exactly_once({.count = 53, .batch = 7, .shuffle = {.every_epochs = 0}}, kWorlds, 4);
}

TEST(StoreSource, AResumedRunIsTheSameAsOneWithoutAPause) {
  for (const ShuffleOptions& shuffle :
       {ShuffleOptions{}, ShuffleOptions{.every_epochs = 0}, ShuffleOptions{.every_epochs = 3},
        ShuffleOptions{.every_epochs = 0, .every_steps = 4}}) {
    Job job{.count = 40, .batch = 8, .world = 3, .shuffle = shuffle};
    const Course whole = run(job, 30);
    std::vector<std::vector<std::size_t>> pieces;
    while (pieces.size() < 30) {
      const Course piece = run(job, 3);
      pieces.insert(pieces.end(), piece.batches.begin(), piece.batches.end());
      job.from = piece.position;
    }
    EXPECT_EQ(pieces, whole.batches);
    EXPECT_EQ(job.from, whole.position);
  }
}

TEST(StoreSource, EpochsDifferWithoutAShuffle) {
  const Course course =
      run({.count = 24, .batch = 24, .world = 2, .shuffle = {.every_epochs = 0}}, 4);
  EXPECT_EQ(course.position.generation, 0u);
  EXPECT_EQ(course.position.epoch, 2u);
  const auto first = store_order(24, 5, {0, 0, {}}), second = store_order(24, 5, {1, 0, {}, 2});
  EXPECT_NE(first, second);
  // Each member has the same.
  for (std::size_t m = 0; m < 2; ++m) {
    std::set<std::size_t> a, b;
    for (std::size_t p = m; p < 24; p += 2) {
      a.insert(first[p]);
      b.insert(second[p]);
    }
    EXPECT_EQ(a, b);
  }
}

TEST(StoreSource, AShuffleInTheMiddleKeepsWhatIsConsumed) {
  const Position before{0, 0, {{0, 10}}};
  const Position after{0, 1, {{0, 10}, {10, 10}}};
  auto a = store_order(30, 1, before), b = store_order(30, 1, after);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 10, b.begin()));
  EXPECT_NE(a, b);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
}

TEST(StoreSource, LeavesOutALastBatchThatIsNotFull) {
  const Course course = run({.count = 23, .batch = 5, .world = 2, .drop_last = true}, 5);
  EXPECT_TRUE(course.batches[4].empty());
  EXPECT_EQ(all_of(course.batches).size(), 20u);
  EXPECT_EQ(course.over, (std::vector<bool>{false, false, false, true, false}));
  const Course end = run({.count = 23, .batch = 5, .world = 2, .drop_last = true}, 4);
  EXPECT_EQ(end.position, (Position{0, 0, {{0, 23}}}));
}

TEST(StoreSource, GoesOnFromAPositionOfFiles) {
  const auto records = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(60, 6));
  Job job{.count = 60, .batch = 6, .world = 3};
  Loader files(records, {}, loader_options({.batch = 6}, 0));
  files.seek({2, 0, {}});
  std::vector<std::vector<std::size_t>> epoch;
  for (int i = 0; i < 4; ++i) {
    const auto samples = files.next()->samples;
    epoch.emplace_back(samples.begin(), samples.end());
  }
  job.from = files.position();
  for (const auto& batch : run(job, 6).batches) epoch.push_back(batch);
  EXPECT_EQ(all_of(epoch), everything(60));

  // And back.
  job.from = {};
  const Course course = run(job, 14);
  ASSERT_EQ(course.position, (Position{1, 1, {{0, 18}}}));
  epoch.assign(course.batches.begin() + 11, course.batches.end());
  files.seek(course.position);
  while (const Batch* batch = files.next())
    epoch.emplace_back(batch->samples.begin(), batch->samples.end());
  EXPECT_EQ(all_of(epoch), everything(60));
  expect_error<UsageError>([&] { files.seek({2, 1, {{0, 18}}}); }, {"shuffle generation 1"});
  expect_error<UsageError>([&] { files.seek({2, 0, {{0, 18}}, 3}); }, {"shuffle generation 0"});
}

// The order is taken from under nobody.
TEST(StoreSource, GoesElsewhereWhileWorkersAskWhatComesNext) {
  const auto records = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(300, 6));
  run_ranks(1, [&](Peers& peers) {
    LoaderOptions options = loader_options({.batch = 1}, peers.rank());
    options.threads = 3;
    options.ahead = 50;
    StoreSource source(std::make_shared<Store>(records, peers), {}, options);
    const std::size_t first = source.next()->samples[0];
    for (int i = 0; i < 300; ++i) {
      source.seek({});
      ASSERT_EQ(source.next()->samples[0], first);
    }
  });
}

TEST(StoreSource, RandomBatchesComeFromTheOwnMemory) {
  const Course course =
      run({.count = 40, .batch = 8, .world = 2, .shuffle = {.random_batches = true}}, 5);
  const auto drawn = all_of(course.batches);  // run() expects that each is held
  EXPECT_EQ(drawn.size(), 40u);
  EXPECT_LT(std::set<std::size_t>(drawn.begin(), drawn.end()).size(), 40u);
}

TEST(StoreSource, RefusesWhatDoesNotFit) {
  const auto records = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(10, 6));
  Alone alone;
  const auto store = std::make_shared<Store>(records, alone);
  LoaderOptions options = loader_options({.batch = 2, .world = 2}, 0);
  expect_error<UsageError>([&] { StoreSource(store, {}, options); },
                           {"rank 0 of 2 can't use a store of 1 groups of 1"});
  expect_error<UsageError>([&] { StoreSource(nullptr, {}, options); }, {"there is no store"});
  options.world = 1;
  StoreSource source(store, {}, options);
  expect_error<UsageError>([&] { source.seek({0, 0, {{0, 11}}}); }, {"11 samples of 10"});
  expect_error<UsageError>([&] { source.seek({0, 2, {{0, 2}, {3, 4}}}); }, {"gaps"});
  expect_error<UsageError>(
      [&] {
        source.seek({0, 0, {{0, 2}, {2, 4}}});
      },
      {"after 1 shuffles in its epoch, but of generation 0"});
}

// As a task asks, which would otherwise answer files of pictures in the place of these.
TEST(StoreSource, KnowsRecordsThatAreNoPictures) {
  class Numbers final : public NumberedRecords {
   public:
    using NumberedRecords::NumberedRecords;
    bool pictures() const override { return false; }
  };
  Alone peers;
  const std::vector<std::uint64_t> lengths(4, 6);
  EXPECT_FALSE(Store(std::make_shared<Numbers>(lengths), peers).pictures());
  EXPECT_TRUE(Store(std::make_shared<NumberedRecords>(lengths), peers).pictures());
}

#ifndef CONVOY_SANITIZED  // sanitizers keep what is freed
TEST(StoreSource, HasOneOrderInMemoryAtATime) {
  constexpr std::size_t kCount = 2'000'000;
  const auto records = std::make_shared<NumberedRecords>(std::vector<std::uint64_t>(kCount, 1));
  Alone peers;
  StoreOptions options;
  options.placement = Placement::files;
  options.host_memory = std::uint64_t{1} << 30;
  const auto store = std::make_shared<Store>(records, peers, options);
  LoaderOptions loader;
  loader.batch = 8;
  StoreSource source(store, {}, loader);
  ASSERT_NE(source.next(), nullptr);
  ASSERT_GT(resident_memory(), 0u);
  if (!forget_peak_memory()) GTEST_SKIP() << "this system doesn't let programs watch their memory";
  const std::uint64_t before = resident_memory();
  source.seek({1, 1, {}});
  ASSERT_NE(source.next(), nullptr);
  EXPECT_LT(peak_memory(), before + kCount * 8 / 2);
}
#endif

}  // namespace
}  // namespace convoy::data
