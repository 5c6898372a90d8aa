#include "convoy/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "convoy/base/clock.h"
#include "tests/base/patience.h"
#include "tests/data/loader_support.h"

namespace convoy::data {
namespace {

// One loader per rank of a world, stepped together.
class World {
 public:
  World(const std::shared_ptr<Dataset>& data, const TransformOptions& transform,
        LoaderOptions options, int world) {
    for (int rank = 0; rank < world; ++rank) {
      options.rank = rank;
      options.world = world;
      ranks_.push_back(std::make_unique<Loader>(data, transform, options));
    }
  }

  // One global batch, or false at the end of the epoch, for all ranks alike.
  bool step(Seen& seen) {
    std::size_t ended = 0;
    for (auto& rank : ranks_) {
      const Batch* batch = rank->next();
      if (batch == nullptr) {
        ++ended;
      } else {
        seen.add(*batch);
      }
      EXPECT_EQ(rank->position(), ranks_[0]->position());
    }
    EXPECT_TRUE(ended == 0 || ended == ranks_.size());
    return ended == 0;
  }

  Seen rest_of_epoch() {
    Seen seen;
    while (step(seen)) {
    }
    return seen;
  }

  void seek(const Position& position) {
    for (auto& rank : ranks_) rank->seek(position);
  }
  Loader& rank(std::size_t i) { return *ranks_[i]; }

 private:
  std::vector<std::unique_ptr<Loader>> ranks_;
};

TEST(Loader, EveryWorldAndNumberOfThreadsSeesTheSamePixelsInTheSameOrder) {
  const auto data = small_images(53);
  World alone(data, random_crops(), batches_of(8), 1);
  const Seen first = alone.rest_of_epoch();
  const Seen second = alone.rest_of_epoch();
  ASSERT_EQ(first.pixels.size(), 53u);
  ASSERT_EQ(second.pixels.size(), 53u);
  EXPECT_NE(first.order, second.order);
  EXPECT_NE(first.pixels, second.pixels);
  for (const int world : {2, 3, 5}) {
    for (const int threads : {1, 3}) {
      World ranks(data, random_crops(), batches_of(8, 0, 1, threads), world);
      for (const Seen* expected : {&first, &second}) {
        const Seen seen = ranks.rest_of_epoch();
        EXPECT_EQ(seen.order, expected->order) << world << " ranks, " << threads << " threads";
        EXPECT_EQ(seen.pixels, expected->pixels);
      }
    }
  }
}

TEST(Loader, GoesOnMidEpochAtAnotherWorldSize) {
  const auto data = small_images(53);
  World alone(data, random_crops(), batches_of(8), 1);
  alone.rest_of_epoch();
  const Seen whole = alone.rest_of_epoch();  // epoch 1
  for (const int before : {1, 3}) {
    for (const int after : {1, 2, 5}) {
      World old_world(data, random_crops(), batches_of(8), before);
      old_world.rest_of_epoch();
      Seen seen;
      for (int i = 0; i < 3; ++i) old_world.step(seen);
      const Position position = old_world.rank(0).position();
      EXPECT_EQ(position, (Position{1, 0, {{0, 24}}}));
      EXPECT_EQ(position.count(), 24u);

      LoaderOptions other = batches_of(6, 0, 1, 2);  // nor need the batch be the same
      World new_world(data, random_crops(), other, after);
      Seen ignored;
      new_world.step(ignored);  // a seek gives up what was prepared
      new_world.seek(position);
      EXPECT_EQ(new_world.rank(0).position(), position);
      while (new_world.step(seen)) {
      }
      EXPECT_EQ(seen.order, whole.order);
      EXPECT_EQ(seen.pixels, whole.pixels);
      EXPECT_EQ(new_world.rank(0).position(), (Position{2, 0, {}}));
    }
  }
}

TEST(Loader, PositionsAtTheEndsOfAnEpoch) {
  Loader loader(small_images(10), {}, batches_of(4));
  EXPECT_EQ(loader.size(), 10u);
  EXPECT_EQ(loader.batches_per_epoch(), 3u);
  EXPECT_EQ(loader.shape(), (Shape{3, 6, 6}));
  EXPECT_EQ(loader.position(), (Position{}));
  for (const std::size_t size : {4, 4, 2}) {
    EXPECT_FALSE(loader.epoch_over());
    EXPECT_EQ(loader.next()->size(), size);
  }
  EXPECT_TRUE(loader.epoch_over());
  EXPECT_EQ(loader.position(), (Position{0, 0, {{0, 10}}}));
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.position(), (Position{1, 0, {}}));
  EXPECT_EQ(loader.next()->size(), 4u);
  EXPECT_FALSE(loader.epoch_over());
  loader.seek({7, 0, {{0, 10}}});
  EXPECT_TRUE(loader.epoch_over());
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.next()->size(), 4u);
  EXPECT_EQ(loader.position(), (Position{8, 0, {{0, 4}}}));
}

TEST(Loader, DropLastLeavesOutWhatDoesNotFillABatch) {
  LoaderOptions options = batches_of(4);
  options.drop_last = true;
  World ranks(small_images(10), {}, options, 3);
  EXPECT_EQ(ranks.rank(0).batches_per_epoch(), 2u);
  EXPECT_EQ(ranks.rest_of_epoch().order.size(), 8u);
  EXPECT_EQ(ranks.rest_of_epoch().order.size(), 8u);
  // What is left out is consumed with the last batch: whoever goes on from there begins an epoch.
  Seen seen;
  for (const std::size_t consumed : {4u, 10u}) {
    ASSERT_TRUE(ranks.step(seen));
    EXPECT_EQ(ranks.rank(1).position(), (Position{2, 0, {{0, consumed}}}));
    EXPECT_EQ(ranks.rank(1).epoch_over(), consumed == 10);
  }
  // A position of a larger batch may leave less than one of this.
  ranks.seek({5, 0, {{0, 7}}});
  EXPECT_TRUE(ranks.rank(1).epoch_over());
  EXPECT_FALSE(ranks.step(seen));
  EXPECT_FALSE(ranks.rank(1).epoch_over());
  EXPECT_EQ(ranks.rank(1).position(), (Position{6, 0, {}}));
  expect_error<UsageError>([&] { Loader(small_images(3), {}, options); },
                           {"batch of 4", "3 samples", "drop_last"});
}

TEST(Loader, WithoutShufflingSamplesComeInOrder) {
  LoaderOptions options = batches_of(4);
  options.shuffle = false;
  World ranks(small_images(10), {}, options, 2);
  std::vector<std::size_t> ascending(10);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(ranks.rest_of_epoch().order, ascending);
}

// 13 samples in batches of 8 on 4 ranks: 2 2 2 2, then 5, which two ranks share.
TEST(Loader, NoRankIsLeftWithFewerThanTheLeastShare) {
  LoaderOptions options = batches_of(8);
  options.least_share = 2;
  World ranks(small_images(13), {}, options, 4);
  std::vector<std::vector<std::size_t>> sizes(4);
  for (int batch = 0; batch < 2; ++batch) {
    for (std::size_t r = 0; r < 4; ++r) sizes[r].push_back(ranks.rank(r).next()->size());
  }
  EXPECT_EQ(sizes, (std::vector<std::vector<std::size_t>>{{2, 3}, {2, 2}, {2, 0}, {2, 0}}));
  // Fewer than 4 samples can't be divided: they are one rank's, whatever its share of a whole
  // batch.
  options.batch = 4;
  World few(small_images(7), {}, options, 2);
  EXPECT_EQ(few.rest_of_epoch().order.size(), 7u);
  EXPECT_EQ(few.rest_of_epoch().order.size(), 7u);
  options.least_share = 0;
  expect_error<UsageError>([&] { Loader(small_images(7), {}, options); }, {"least share"});
}

TEST(Loader, SharesMayBeEmptyButBatchesAreAsMany) {
  // 5 ranks and batches of 3: two ranks have nothing, ever.
  World ranks(small_images(7), {}, batches_of(3), 5);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::size_t steps = 0;
    Seen seen;
    while (ranks.step(seen)) ++steps;
    EXPECT_EQ(steps, 3u);
    EXPECT_EQ(seen.order.size(), 7u);
  }
}

TEST(Loader, TheCallerMayWriteIntoABatchAndItsMemoryIsUsedAgain) {
  LoaderOptions options = batches_of(4, 0, 1, 2);
  options.ahead = 3;
  Loader loader(small_images(64), {}, options);
  std::set<const float*> memory;
  Seen clean;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Seen seen;
    while (const Batch* batch = loader.next()) {
      seen.add(*batch);
      memory.insert(batch->images.data());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->images.data()) % 64, 0u);
      std::fill(batch->images.begin(), batch->images.end(), -7.0f);
    }
    if (epoch == 0) clean = seen;
    EXPECT_EQ(seen.pixels, clean.pixels);
  }
  EXPECT_LE(memory.size(), options.ahead + 2);
}

// Through the ends of epochs and a seek: what is shown before it comes is what comes.
TEST(Loader, TheUpcomingBatchIsTheNext) {
  LoaderOptions options = batches_of(4, 0, 1, 2);
  Loader loader(small_images(10), random_crops(), options);
  EXPECT_EQ(loader.upcoming(), nullptr);  // nothing is asked for yet
  std::set<std::uint64_t> numbers;
  int shown = 0;
  for (int batch = 0; batch < 12; ++batch) {
    if (batch == 7) loader.seek({5, 0, {{0, 4}}});
    if (batch == 7) EXPECT_EQ(loader.upcoming(), nullptr);
    // Where it is made, which takes no time to speak of: at the end of an epoch it never is.
    const auto begin = Clock::now();
    while (batch > 0 && batch != 7 && loader.statistics().ready == 0 && !loader.epoch_over() &&
           seconds_since(begin) < convoy::test::patience_s()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const Batch* const upcoming = loader.upcoming();
    if (loader.epoch_over()) EXPECT_EQ(upcoming, nullptr);
    const Pixels early =
        upcoming == nullptr ? Pixels() : Pixels(upcoming->images.begin(), upcoming->images.end());
    const std::uint64_t number = upcoming == nullptr ? 0 : upcoming->number;
    const float* const memory = upcoming == nullptr ? nullptr : upcoming->images.data();
    const Batch* const next = loader.next();
    if (next == nullptr) continue;
    EXPECT_TRUE(numbers.insert(next->number).second) << next->number << " is that of two batches";
    if (upcoming == nullptr) continue;
    ++shown;
    EXPECT_EQ(next->number, number);
    EXPECT_EQ(next->images.data(), memory);
    EXPECT_EQ(Pixels(next->images.begin(), next->images.end()), early);
  }
  EXPECT_GE(shown, 4);
}

TEST(Loader, BatchesAreMadeInMemoryThatIsGiven) {
  LoaderOptions options = batches_of(4);
  options.ahead = 1;
  std::set<const std::byte*> given;
  std::size_t freed = 0;
  options.memory = [&](std::size_t bytes) {
    EXPECT_EQ(bytes, 4 * 3 * 6 * 6 * sizeof(float));
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    given.insert(memory);
    return std::shared_ptr<std::byte>(memory, [&freed](std::byte* of_loader) {
      ++freed;
      std::free(of_loader);
    });
  };
  Seen seen, usual;
  {
    Loader loader(small_images(10), {}, options);
    EXPECT_EQ(given.size(), options.ahead + 2);
    while (const Batch* batch = loader.next()) {
      EXPECT_TRUE(given.contains(batch->bytes.data()));
      seen.add(*batch);
    }
    EXPECT_EQ(freed, 0u);
  }
  EXPECT_EQ(freed, given.size());
  options.memory = {};
  Loader loader(small_images(10), {}, options);
  while (const Batch* batch = loader.next()) usual.add(*batch);
  EXPECT_EQ(seen.pixels, usual.pixels);
}

TEST(Loader, ChannelsLastHoldsTheSameNumbers) {
  LoaderOptions options = batches_of(5);
  Loader planar(small_images(5), random_crops(), options);
  options.layout = Layout::channels_last;
  Loader last(small_images(5), random_crops(), options);
  const Batch& a = *planar.next();
  const Batch& b = *last.next();
  EXPECT_EQ(a.layout, Layout::planar);
  EXPECT_EQ(b.layout, Layout::channels_last);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t p = 0; p < 25; ++p) {
        EXPECT_EQ(a.images[i * 75 + c * 25 + p], b.images[i * 75 + p * 3 + c]);
      }
    }
  }
}

// Waits in read() until it is let go.
class Slow : public TestDataset {
 public:
  using TestDataset::TestDataset;
  Record read(std::size_t i, Bytes& scratch) const override {
    ++reads;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return TestDataset::read(i, scratch);
  }
  mutable std::atomic<int> reads{0};
};

TEST(Loader, MayBeDestroyedOrMovedElsewhereWhileWorkersAreBusy) {
  const auto data = std::make_shared<Slow>(std::vector<Bytes>(200, Bytes(4)), Encoding::planar_u8,
                                           Shape{1, 2, 2});
  for (int i = 0; i < 5; ++i) {
    Loader loader(data, {}, batches_of(8, 0, 1, 4));
    if (i > 0) loader.next();
    if (i > 1) loader.seek({3, 0, {{0, 50}}});
    if (i > 2) {
      EXPECT_EQ(loader.next()->size(), 8u);
      EXPECT_EQ(loader.position(), (Position{3, 0, {{0, 58}}}));
    }
  }
  EXPECT_LT(data->reads, 300);  // no more is prepared than asked for
}

TEST(Loader, WaitingAndDecodingAreMeasured) {
  const auto data =
      std::make_shared<Slow>(std::vector<Bytes>(8, Bytes(4)), Encoding::planar_u8, Shape{1, 2, 2});
  Loader loader(data, {}, batches_of(4));
  loader.next();
  EXPECT_GT(loader.statistics().wait_s, 0.015);
  EXPECT_GT(loader.statistics().decode_s, 0.015);
  // Another batch becomes ready on its own.
  const auto start = Clock::now();
  while (loader.statistics().ready == 0 && seconds_since(start) < convoy::test::patience_s()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GE(loader.statistics().ready, 1u);
}

TEST(Loader, ErrorsSayWhatIsWrong) {
  const auto data = small_images(10);
  const auto refused = [&](const std::function<void(LoaderOptions&)>& change,
                           const std::vector<std::string>& parts) {
    LoaderOptions options = batches_of(4);
    change(options);
    expect_error<UsageError>([&] { Loader(data, {}, options); }, parts);
  };
  refused([](auto& o) { o.batch = 0; }, {"batch size is 0"});
  refused([](auto& o) { o.threads = 0; }, {"threads is 0"});
  refused([](auto& o) { o.ahead = 0; }, {"ahead is 0"});
  refused([](auto& o) { o.rank = 1; }, {"rank 1", "world of 1"});
  expect_error<UsageError>([&] { Loader(nullptr, {}, batches_of(1)); }, {"no dataset"});
  expect_error<UsageError>([&] { Loader(jpegs(0), {}, batches_of(1)); }, {"empty"});
  Bytes nothing;
  const auto broken =
      std::make_shared<TestDataset>(std::vector<Bytes>{nothing}, Encoding::jpeg, Shape{});
  expect_error<UsageError>([&] { Loader(broken, {}, batches_of(1)); }, {"record 0: ", "empty"});
  TransformOptions crop;
  crop.crop = Crop::random_resized;
  expect_error<UsageError>([&] { Loader(data, crop, batches_of(1)); }, {"height is 0"});

  Loader loader(data, {}, batches_of(4));
  expect_error<UsageError>([&] { loader.seek({0, 0, {{0, 11}}}); }, {"11 samples of 10"});
  expect_error<UsageError>([&] { loader.seek({0, 0, {{2, 4}, {1, 2}}}); }, {"ascend"});
  expect_error<UsageError>([&] { loader.seek({0, 3, {}}); }, {"generation 3"});
}

}  // namespace
}  // namespace convoy::data
