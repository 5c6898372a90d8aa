#include "convoy/parallel/sampler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::parallel {
namespace {

using Samples = std::vector<std::size_t>;
using Options = DistributedSamplerOptions;

// Sample i is the number i.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  explicit Numbers(std::size_t count) : count(count) {}
  torch::data::Example<> get(std::size_t i) override {
    const auto number = torch::tensor(static_cast<std::int64_t>(i));
    return {number, number};
  }
  std::optional<std::size_t> size() const override { return count; }
  std::size_t count;
};

auto make_loader(const DistributedSampler& sampler, std::size_t batch, std::size_t workers = 0) {
  return torch::data::make_data_loader(
      Numbers(sampler.size()).map(torch::data::transforms::Stack<>()), sampler,
      torch::data::DataLoaderOptions(batch).workers(workers));
}

template <typename Loader>
Samples epoch_of(Loader& loader) {
  Samples seen;
  for (auto& batch : *loader) {
    const auto* numbers = batch.data.template data_ptr<std::int64_t>();
    seen.insert(seen.end(), numbers, numbers + batch.data.numel());
  }
  return seen;
}

Samples rest_of(DistributedSampler& sampler, std::size_t batch) {
  Samples seen;
  while (auto indices = sampler.next(batch)) {
    EXPECT_FALSE(indices->empty());
    EXPECT_LE(indices->size(), batch);
    seen.insert(seen.end(), indices->begin(), indices->end());
  }
  return seen;
}

Samples sorted(Samples samples) {
  std::sort(samples.begin(), samples.end());
  return samples;
}

Samples all(std::size_t count) {
  Samples samples(count);
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  return samples;
}

TEST(DistributedSampler, LoadersOfAllRanksSeeEverySampleOnce) {
  for (std::size_t count : {0, 1, 2, 7, 24, 61}) {
    for (int world : {1, 2, 3, 5}) {
      Samples seen;
      for (int rank = 0; rank < world; ++rank) {
        auto loader = make_loader(DistributedSampler(count, rank, world), 4);
        const Samples mine = epoch_of(loader);
        seen.insert(seen.end(), mine.begin(), mine.end());
      }
      EXPECT_EQ(sorted(seen), all(count)) << count << " samples, " << world << " ranks";
    }
  }
}

// pytorch #73141: the stock distributed sampler repeats its order unless told the epoch.
TEST(DistributedSampler, EveryEpochHasAnotherOrderByItself) {
  const DistributedSampler sampler(100, 0, 1, {.seed = 3});
  auto loader = make_loader(sampler, 8);
  const Samples first = epoch_of(loader);
  EXPECT_EQ(sampler.epoch(), 0u);
  const Samples second = epoch_of(loader);
  EXPECT_EQ(sampler.epoch(), 1u);
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), sorted(second));
  EXPECT_NE(first, all(100));

  auto again = make_loader(DistributedSampler(100, 0, 1, {.seed = 3}), 8);
  EXPECT_EQ(epoch_of(again), first);
  EXPECT_EQ(epoch_of(again), second);
  auto other = make_loader(DistributedSampler(100, 0, 1, {.seed = 4}), 8);
  EXPECT_NE(epoch_of(other), first);
}

TEST(DistributedSampler, BeginningAgainBeforeTheEndStartsTheNextEpoch) {
  const DistributedSampler sampler(20, 0, 1);
  auto loader = make_loader(sampler, 4);
  (void)loader->begin();
  EXPECT_EQ(sampler.epoch(), 0u);
  EXPECT_EQ(sorted(epoch_of(loader)), all(20));
  EXPECT_EQ(sampler.epoch(), 1u);
}

TEST(DistributedSampler, WithoutShuffleAscends) {
  DistributedSampler sampler(10, 1, 2, {.shuffle = false});
  EXPECT_EQ(rest_of(sampler, 3), (Samples{3, 4, 5, 8, 9}));
}

TEST(DistributedSampler, UnevenEndLeavesLastRanksWithoutAStep) {
  std::vector<std::size_t> steps;
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(7, rank, 3);
    std::size_t count = 0;
    while (sampler.next(2)) ++count;
    steps.push_back(count);
    EXPECT_EQ(sampler.position(), 7u);
    EXPECT_EQ(sampler.steps(2), 2u);
  }
  EXPECT_EQ(steps, (std::vector<std::size_t>{2, 1, 1}));
}

TEST(DistributedSampler, DropLastGivesAllRanksTheSameSteps) {
  Samples seen;
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(20, rank, 3, {.drop_last = true});
    EXPECT_EQ(sampler.steps(2), 3u);
    const Samples mine = rest_of(sampler, 2);
    EXPECT_EQ(mine.size(), 6u);
    seen.insert(seen.end(), mine.begin(), mine.end());
  }
  seen = sorted(seen);
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen.size(), 18u);
}

TEST(DistributedSampler, ResumesAtAnotherWorldSizeExactlyOnce) {
  for (std::size_t count : {23, 60}) {
    for (int first = 1; first <= 4; ++first) {
      for (int second = 1; second <= 4; ++second) {
        Samples seen;
        std::size_t consumed = 0;
        for (int rank = 0; rank < first; ++rank) {
          DistributedSampler sampler(count, rank, first);
          sampler.seek(5);
          sampler.reset();
          for (int step = 0; step < 2; ++step) {
            const auto mine = sampler.next(2);
            ASSERT_TRUE(mine);
            seen.insert(seen.end(), mine->begin(), mine->end());
          }
          consumed = sampler.position();
          EXPECT_EQ(consumed, sampler.position_after(2, 2));
        }
        for (int rank = 0; rank < second; ++rank) {
          DistributedSampler sampler(count, rank, second);
          sampler.seek(5, consumed);
          sampler.reset();
          const Samples mine = rest_of(sampler, 3);
          seen.insert(seen.end(), mine.begin(), mine.end());
          sampler.reset();
          EXPECT_EQ(sampler.epoch(), 6u);
          EXPECT_EQ(sampler.position(), 0u);
        }
        EXPECT_EQ(sorted(seen), all(count));
      }
    }
  }
}

TEST(DistributedSampler, SeekSteersTheLoadersCopy) {
  DistributedSampler sampler(30, 0, 1, {.seed = 9});
  auto loader = make_loader(sampler, 5, 2);
  (void)epoch_of(loader);
  const Samples second = epoch_of(loader);
  sampler.seek(1, 10);
  EXPECT_EQ(epoch_of(loader), Samples(second.begin() + 10, second.end()));
  EXPECT_EQ(epoch_of(loader).size(), 30u);
  EXPECT_EQ(sampler.epoch(), 2u);
}

TEST(DistributedSampler, CountsStepsFromWhereItResumed) {
  DistributedSampler sampler(30, 0, 2);
  sampler.seek(0, 10);
  EXPECT_EQ(sampler.steps(4), 3u);
  sampler.reset();
  (void)sampler.next(4);
  EXPECT_EQ(sampler.position(), 18u);
  EXPECT_EQ(sampler.steps(4), 3u);
  EXPECT_EQ(sampler.position_after(0, 4), 10u);
  EXPECT_EQ(sampler.position_after(2, 4), 26u);
  EXPECT_EQ(sampler.position_after(3, 4), 30u);
}

TEST(DistributedSampler, SeekingToTheEndStandsForTheNextEpoch) {
  DistributedSampler sampler(10, 0, 1);
  sampler.seek(2, 10);
  sampler.reset();
  EXPECT_EQ(sampler.epoch(), 3u);
  EXPECT_EQ(rest_of(sampler, 4).size(), 10u);
}

TEST(DistributedSampler, TakesANewSize) {
  DistributedSampler sampler(10, 0, 1);
  sampler.seek(0, 4);
  sampler.reset(6);
  EXPECT_EQ(sampler.size(), 6u);
  EXPECT_EQ(sorted(rest_of(sampler, 4)), all(6));
}

TEST(DistributedSampler, ArchiveCarriesThePositionToAnotherWorld) {
  std::stringstream file;
  Samples seen;
  for (int rank = 0; rank < 2; ++rank) {
    DistributedSampler sampler(40, rank, 2, {.seed = ~std::uint64_t{0}});
    sampler.reset();
    sampler.reset();
    const auto mine = sampler.next(7);
    seen.insert(seen.end(), mine->begin(), mine->end());
    if (rank == 0) {
      torch::serialize::OutputArchive archive;
      sampler.save(archive);
      archive.save_to(file);
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    file.seekg(0);
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    DistributedSampler sampler(40, rank, 3, {.seed = ~std::uint64_t{0}});
    sampler.load(archive);
    sampler.reset();
    EXPECT_EQ(sampler.epoch(), 1u);
    const Samples mine = rest_of(sampler, 5);
    seen.insert(seen.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(sorted(seen), all(40));
}

TEST(DistributedSampler, RefusesForeignArchivesAndStaysAsItWas) {
  const auto archived = [](const auto& write) {
    torch::serialize::OutputArchive out;
    write(out);
    std::stringstream file;
    out.save_to(file);
    torch::serialize::InputArchive in;
    in.load_from(file);
    return in;
  };
  DistributedSampler sampler(40, 0, 1, {.seed = 1});
  sampler.seek(3, 8);
  auto empty = archived([](auto& out) { out.write("weight", torch::ones(2)); });
  auto other_seed = archived([](auto& out) { DistributedSampler(40, 0, 1).save(out); });
  auto other_size =
      archived([](auto& out) { DistributedSampler(41, 0, 1, {.seed = 1}).save(out); });
  // As sampler.save() would write it, but with a position after the data set's end.
  auto beyond = archived([](auto& out) {
    const auto write = [&](const char* key, std::int64_t value) {
      out.write(key, torch::tensor(value), /*is_buffer=*/true);
    };
    write("convoy_sampler_size", 40);
    write("convoy_sampler_seed", 1);
    write("convoy_sampler_shuffle", 1);
    write("convoy_sampler_epoch", 0);
    write("convoy_sampler_position", 41);
  });
  EXPECT_THROW(sampler.load(empty), UsageError);
  EXPECT_THROW(sampler.load(other_seed), UsageError);
  EXPECT_THROW(sampler.load(other_size), UsageError);
  EXPECT_THROW(sampler.load(beyond), UsageError);
  EXPECT_EQ(sampler.epoch(), 3u);
  EXPECT_EQ(sampler.position(), 8u);
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  EXPECT_THROW(DistributedSampler(10, 2, 2), UsageError);
  EXPECT_THROW(DistributedSampler(10, -1, 2), UsageError);
  EXPECT_THROW(DistributedSampler(10, 0, 0), UsageError);
  DistributedSampler sampler(10, 0, 1);
  EXPECT_THROW(sampler.next(0), UsageError);
  EXPECT_THROW(sampler.seek(0, 11), UsageError);
  EXPECT_EQ(sampler.position(), 0u);
}

TEST(DistributedSampler, TakesRankAndSizeFromAWorld) {
  struct {
    int rank() const { return 1; }
    int size() const { return 4; }
  } world;
  DistributedSampler sampler(8, world, {.shuffle = false});
  EXPECT_EQ(rest_of(sampler, 1), (Samples{1, 5}));
}

}  // namespace
}  // namespace convoy::parallel
