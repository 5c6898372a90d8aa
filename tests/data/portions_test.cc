// Parts of epochs: those that somebody hands out, and an epoch that others have left with gaps.
#include "convoy/data/portions.h"

#include "tests/data/loader_support.h"

namespace convoy::data {
namespace {

Seen rest_of_epoch(Loader& loader) {
  Seen seen;
  while (const Batch* batch = loader.next()) seen.add(*batch);
  return seen;
}

TEST(Portions, AreCutIntoBatchesThatEndWithThem) {
  Portions portions;
  EXPECT_FALSE(portions.next(4));
  portions.add({3, {8, 15}});
  portions.add({4, {0, 2}});
  EXPECT_EQ(portions.next(4), (EpochPart{3, {8, 12}}));
  EXPECT_EQ(portions.next(4), (EpochPart{3, {12, 15}}));
  EXPECT_EQ(portions.next(4), (EpochPart{4, {0, 2}}));
  EXPECT_FALSE(portions.next(4));
}

// The same samples with the same pixels as in whole epochs.
TEST(Portions, LoadersMakeTheBatchesOfTheirEpochs) {
  const auto data = small_images(30);
  Loader whole(data, random_crops(), batches_of(5));
  std::map<std::uint64_t, Seen> epochs;
  for (const std::uint64_t epoch : {0, 1}) epochs[epoch] = rest_of_epoch(whole);
  for (const int world : {1, 2}) {
    std::vector<std::unique_ptr<Loader>> ranks;
    std::vector<std::shared_ptr<Portions>> portions;
    for (int rank = 0; rank < world; ++rank) {
      LoaderOptions options = batches_of(5, rank, world, 2);
      options.portions = portions.emplace_back(std::make_shared<Portions>());
      ranks.push_back(std::make_unique<Loader>(data, random_crops(), options));
    }
    const auto add = [&](const EpochPart& part) {
      for (const auto& of_rank : portions) of_rank->add(part);
    };
    const auto expect = [&](std::uint64_t epoch, Range positions) {
      Seen seen;
      for (const auto& rank : ranks) {
        const Batch* batch = rank->next();
        ASSERT_NE(batch, nullptr);
        seen.add(*batch);
        EXPECT_FALSE(rank->epoch_over());
      }
      const EpochOrder order(30, 5, epoch);
      EXPECT_EQ(seen.order, order.samples(positions));
      for (const auto& [sample, pixels] : seen.pixels)
        EXPECT_EQ(pixels, epochs[epoch].pixels.at(sample)) << sample;
    };
    add({1, {10, 18}});
    add({0, {25, 30}});
    expect(1, {10, 15});
    expect(1, {15, 18});
    expect(0, {25, 30});
    add({1, {0, 5}});
    expect(1, {0, 5});
    // What was prepared is forgotten.
    add({0, {0, 10}});
    expect(0, {0, 5});
    for (const auto& of_rank : portions) of_rank->clear();
    for (const auto& rank : ranks) rank->seek({});
    add({1, {20, 25}});
    expect(1, {20, 25});
  }
}

TEST(Portions, AnEpochWithGapsGoesOnWithWhatIsLeft) {
  const auto data = small_images(30);
  const std::vector<Range> consumed{{0, 4}, {10, 15}, {28, 30}};
  for (const int world : {1, 3}) {
    std::vector<std::unique_ptr<Loader>> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(std::make_unique<Loader>(data, random_crops(), batches_of(6, rank, world)));
      ranks.back()->seek({2, 0, consumed});
      EXPECT_EQ(ranks.back()->position().consumed, consumed);
      EXPECT_EQ(ranks.back()->batches_left(), 4u);
    }
    const EpochOrder order(30, 5, 2);
    std::vector<std::size_t> left = order.samples({4, 10});
    for (const std::size_t sample : order.samples({15, 28})) left.push_back(sample);
    Seen seen;
    const auto step = [&] {
      for (const auto& rank : ranks) {
        if (const Batch* batch = rank->next()) seen.add(*batch);
      }
      return seen.order.size();
    };
    step();
    EXPECT_EQ(ranks[0]->position().consumed, (std::vector<Range>{{0, 15}, {28, 30}}));
    step();
    EXPECT_EQ(ranks[0]->position().consumed, (std::vector<Range>{{0, 21}, {28, 30}}));
    // From there on any number of ranks.
    Loader other(data, random_crops(), batches_of(6));
    other.seek(ranks[0]->position());
    Seen rest = rest_of_epoch(other);
    step();
    EXPECT_EQ(step(), left.size());
    EXPECT_EQ(seen.order, left);
    EXPECT_EQ(rest.order, std::vector<std::size_t>(left.begin() + 12, left.end()));
    EXPECT_TRUE(ranks[0]->epoch_over());
    EXPECT_EQ(ranks[0]->position().consumed, (std::vector<Range>{{0, 30}}));
    // The next epoch is whole, and so is this one for who begins anew.
    for (const auto& rank : ranks) EXPECT_EQ(rank->next(), nullptr);
    ranks[0]->seek({2, 0, {{0, 6}}});
    EXPECT_EQ(ranks[0]->position().consumed, (std::vector<Range>{{0, 6}}));
  }
  Loader again(data, random_crops(), batches_of(6));
  again.seek({2, 0, consumed});
  again.seek({2, 0, {}});
  EXPECT_EQ(rest_of_epoch(again).order, EpochOrder(30, 5, 2).samples({0, 30}));
}

TEST(Portions, ConsumedFurther) {
  using Ranges = std::vector<Range>;
  EXPECT_EQ(consumed_further({}, 3, 10), (Ranges{{0, 3}}));
  EXPECT_EQ(consumed_further({{2, 4}}, 1, 10), (Ranges{{0, 1}, {2, 4}}));
  EXPECT_EQ(consumed_further({{2, 4}}, 2, 10), (Ranges{{0, 4}}));
  EXPECT_EQ(consumed_further({{2, 4}, {6, 7}}, 5, 10), (Ranges{{0, 8}}));
  EXPECT_EQ(consumed_further({{2, 4}, {6, 7}}, 0, 10), (Ranges{{2, 4}, {6, 7}}));
}

}  // namespace
}  // namespace convoy::data
