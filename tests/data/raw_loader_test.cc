// Records as they are stored, in batches that hold so much of something.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "convoy/data/loader.h"
#include "data/loader/cost_cutter.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

// Record i has 1 + (7 i mod 13) bytes of value i.
std::vector<Bytes> records_of(std::size_t count) {
  std::vector<Bytes> records;
  for (std::size_t i = 0; i < count; ++i)
    records.emplace_back(1 + 7 * i % 13, static_cast<std::byte>(i));
  return records;
}

LoaderOptions raw(std::size_t batch, int rank, int world, const std::vector<Bytes>* costs) {
  LoaderOptions options;
  options.batch = batch;
  options.rank = rank;
  options.world = world;
  options.seed = 3;
  options.threads = 2;
  options.raw = true;
  if (costs != nullptr)
    options.cost = [costs](std::size_t i) { return std::uint64_t{(*costs)[i].size()}; };
  return options;
}

struct Epoch {
  std::vector<std::vector<std::size_t>> batches;  // of all ranks, in order
  std::vector<std::size_t> left;                  // as rank 0 was told after each
  std::vector<std::size_t> most, least;           // units of a rank's share
};

Epoch read_epoch(const std::vector<Bytes>& records, std::size_t batch, int world, bool costs,
                 const Position& from = {}) {
  const auto dataset = std::make_shared<TestDataset>(records, Encoding::planar_u8, Shape{});
  std::vector<std::unique_ptr<Loader>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(std::make_unique<Loader>(dataset, TransformOptions(),
                                             raw(batch, rank, world, costs ? &records : nullptr)));
    ranks.back()->seek(from);
  }
  Epoch epoch;
  while (true) {
    std::vector<std::size_t> all;
    std::size_t most = 0, least = records.size() * 100;
    for (auto& loader : ranks) {
      const Batch* share = loader->next();
      if (share == nullptr) return epoch;
      EXPECT_EQ(share->records.size(), share->size());
      EXPECT_TRUE(share->bytes.empty());
      std::size_t units = 0;
      for (std::size_t i = 0; i < share->size(); ++i) {
        EXPECT_EQ(share->records[i], records[share->samples[i]]);
        units += share->records[i].size();
      }
      all.insert(all.end(), share->samples.begin(), share->samples.end());
      most = std::max(most, units);
      least = std::min(least, units);
      EXPECT_EQ(loader->epoch_over(), loader->batches_left() == 0);
    }
    epoch.batches.push_back(all);
    epoch.left.push_back(ranks[0]->batches_left());
    epoch.most.push_back(most);
    epoch.least.push_back(least);
  }
}

std::size_t units_of(const std::vector<Bytes>& records, const std::vector<std::size_t>& samples) {
  std::size_t units = 0;
  for (const std::size_t sample : samples) units += records[sample].size();
  return units;
}

TEST(RawLoader, GivesRecordsAsTheyAreStored) {
  const std::vector<Bytes> records = records_of(50);
  const Epoch epoch = read_epoch(records, 8, 3, false);
  ASSERT_EQ(epoch.batches.size(), 7u);
  std::set<std::size_t> seen;
  for (const auto& batch : epoch.batches) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(epoch.left, (std::vector<std::size_t>{6, 5, 4, 3, 2, 1, 0}));
}

TEST(RawLoader, BatchesHoldSoManyUnitsWhateverTheRanks) {
  const std::vector<Bytes> records = records_of(200);
  const Epoch serial = read_epoch(records, 60, 1, true);
  std::vector<std::size_t> order;
  for (const auto& batch : serial.batches) order.insert(order.end(), batch.begin(), batch.end());
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 200u);
  for (std::size_t b = 0; b < serial.batches.size(); ++b) {
    const std::size_t units = units_of(records, serial.batches[b]);
    EXPECT_LE(units, 60u);
    // One more would have been too much.
    if (b + 1 < serial.batches.size())
      EXPECT_GT(units + records[serial.batches[b + 1].front()].size(), 60u);
    EXPECT_EQ(serial.left[b], serial.batches.size() - 1 - b);
  }
  for (const int world : {2, 3, 5}) {
    const Epoch shared = read_epoch(records, 60, world, true);
    EXPECT_EQ(shared.batches, serial.batches) << world;
    EXPECT_EQ(shared.left, serial.left);
    for (std::size_t b = 0; b + 1 < shared.most.size(); ++b)
      EXPECT_LE(shared.most[b], shared.least[b] + 2 * 13) << world;
  }
}

TEST(RawLoader, AResumedEpochGoesOnWithOtherBatches) {
  const std::vector<Bytes> records = records_of(100);
  const Epoch whole = read_epoch(records, 40, 2, true);
  std::set<std::size_t> seen;
  std::size_t consumed = 0;
  for (std::size_t b = 0; b < 3; ++b) {
    seen.insert(whole.batches[b].begin(), whole.batches[b].end());
    consumed += whole.batches[b].size();
  }
  Position position;
  position.consumed = {{0, consumed}};
  const Epoch rest = read_epoch(records, 55, 3, true, position);
  for (const auto& batch : rest.batches) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(rest.left.back(), 0u);
}

TEST(RawLoader, SamplesOfNothingAndOfTooMuch) {
  // One larger than a batch, some that count nothing, and more ranks than samples in a batch.
  std::vector<Bytes> records{Bytes(500), Bytes(0), Bytes(0), Bytes(3), Bytes(500), Bytes(1)};
  for (const int world : {1, 4}) {
    const Epoch epoch = read_epoch(records, 10, world, true);
    std::size_t samples = 0;
    for (const auto& batch : epoch.batches) {
      samples += batch.size();
      if (units_of(records, batch) > 10) EXPECT_EQ(batch.size(), 1u);
    }
    EXPECT_EQ(samples, records.size());
  }
}

TEST(RawLoader, CostsThatCantBe) {
  const std::vector<Bytes> records = records_of(10);
  const auto dataset = std::make_shared<TestDataset>(records, Encoding::planar_u8, Shape{});
  LoaderOptions options = raw(10, 0, 1, &records);
  options.drop_last = true;
  expect_error<UsageError>([&] { Loader(dataset, TransformOptions(), options); }, {"drop_last"});
  options = raw(10, 0, 1, &records);
  options.raw = false;
  expect_error<UsageError>([&] { Loader(dataset, TransformOptions(), options); }, {"raw"});
  options = raw(0, 0, 1, &records);
  expect_error<UsageError>([&] { Loader(dataset, TransformOptions(), options); }, {"batch"});
}

TEST(RawLoader, ACostThatCantBeHadIsSaidAtOnce) {
  const std::vector<Bytes> records = records_of(10);
  const auto dataset = std::make_shared<TestDataset>(records, Encoding::planar_u8, Shape{});
  LoaderOptions options = raw(10, 0, 1, nullptr);
  options.cost = [](std::size_t i) -> std::uint64_t {
    if (i == 9) throw Failure("lengths.txt can't be read");
    return 1;
  };
  expect_error<Failure>([&] { Loader(dataset, TransformOptions(), options); }, {"lengths.txt"});
  options = raw(10, 0, 1, &records);
  options.least_share = 2;
  expect_error<UsageError>([&] { Loader(dataset, TransformOptions(), options); }, {"least_share"});
}

}  // namespace
}  // namespace convoy::data
