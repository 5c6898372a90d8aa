#include "convoy/data/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

using Positions = std::vector<std::size_t>;

Positions ascending(std::size_t begin, std::size_t end) {
  Positions all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

std::vector<EpochCursor> cursors(std::size_t count, std::size_t consumed, int world,
                                 bool drop_last = false) {
  std::vector<EpochCursor> all;
  for (int rank = 0; rank < world; ++rank) {
    all.emplace_back(count, consumed, rank, world, drop_last);
  }
  return all;
}

// Lets every rank take up to `steps` global batches; appends the positions in rank order.
void advance(std::vector<EpochCursor>& ranks, std::size_t local_batch, std::size_t steps,
             Positions& seen) {
  const std::size_t batch = global_batch(local_batch, static_cast<int>(ranks.size()));
  for (std::size_t step = 0; step < steps && !ranks[0].done(); ++step) {
    for (EpochCursor& rank : ranks) {
      const Range share = rank.next(batch);
      for (std::size_t p = share.begin; p < share.end; ++p) seen.push_back(p);
    }
  }
}

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

TEST(EvenShare, PartsAreConsecutiveEvenAndComplete) {
  for (std::size_t begin : {0, 7}) {
    for (std::size_t size = 0; size <= 40; ++size) {
      for (int world = 1; world <= 12; ++world) {
        std::size_t at = begin;
        for (int rank = 0; rank < world; ++rank) {
          const Range share = even_share({begin, begin + size}, rank, world);
          EXPECT_EQ(share.begin, at);
          EXPECT_GE(share.size(), size / world);
          EXPECT_LE(share.size(), (size + world - 1) / world);
          at = share.end;
        }
        EXPECT_EQ(at, begin + size);
      }
    }
  }
}

TEST(EvenShare, LargerPartsComeFirst) {
  EXPECT_EQ(even_share({10, 15}, 0, 3), (Range{10, 12}));
  EXPECT_EQ(even_share({10, 15}, 1, 3), (Range{12, 14}));
  EXPECT_EQ(even_share({10, 15}, 2, 3), (Range{14, 15}));
  EXPECT_TRUE(even_share({10, 12}, 2, 3).empty());
}

TEST(EvenShare, RefusesRanksOutsideTheWorld) {
  EXPECT_THROW(even_share({0, 5}, 3, 3), UsageError);
  EXPECT_THROW(even_share({0, 5}, 3, 3, 2), UsageError);
  EXPECT_THROW(even_share({0, 5}, -1, 3), UsageError);
  EXPECT_THROW(even_share({0, 5}, 0, 0), UsageError);
}

TEST(EvenShare, OfAtLeastSoMany) {
  for (std::size_t size = 0; size <= 20; ++size) {
    for (int world = 1; world <= 6; ++world) {
      for (std::size_t least = 1; least <= 4; ++least) {
        std::size_t end = 100;
        for (int rank = 0; rank < world; ++rank) {
          const Range share = even_share({100, 100 + size}, rank, world, least);
          EXPECT_EQ(share.begin, end);
          end = share.end;
          if (rank > 0 || size >= least) EXPECT_TRUE(share.empty() || share.size() >= least);
          if (size >= least * static_cast<std::size_t>(world)) {
            EXPECT_EQ(share, even_share({100, 100 + size}, rank, world));
          }
        }
        EXPECT_EQ(end, 100 + size);
      }
    }
  }
}

TEST(EpochOrder, IsAPermutationThatSeedAndEpochDecide) {
  for (std::size_t count : {0, 1, 2, 3, 100, 1001}) {
    const EpochOrder order(count, 5, 3);
    Positions samples = order.samples({0, count});
    for (std::size_t p = 0; p < count; ++p) EXPECT_EQ(order[p], samples[p]);
    EXPECT_EQ(samples, EpochOrder(count, 5, 3).samples({0, count}));
    std::sort(samples.begin(), samples.end());
    EXPECT_EQ(samples, ascending(0, count));
  }
  const Positions order = EpochOrder(100, 5, 3).samples({0, 100});
  EXPECT_NE(order, EpochOrder(100, 5, 4).samples({0, 100}));
  EXPECT_NE(order, EpochOrder(100, 6, 3).samples({0, 100}));
  EXPECT_NE(order, ascending(0, 100));
}

TEST(EpochOrder, AscendsWithoutShuffle) {
  EXPECT_EQ(EpochOrder(9, 5, 3, false).samples({0, 9}), ascending(0, 9));
}

// A resumed epoch replays the order on another machine: these numbers must never change.
TEST(EpochOrder, GoldenOrder) {
  EXPECT_EQ(EpochOrder(10, 1, 0).samples({0, 10}), (Positions{6, 3, 0, 7, 9, 1, 2, 8, 5, 4}));
  EXPECT_EQ(EpochOrder(10, 1, 1).samples({0, 10}), (Positions{9, 1, 5, 4, 6, 7, 2, 3, 0, 8}));
}

TEST(EpochCursor, EveryPositionExactlyOnceInOrder) {
  for (std::size_t count = 0; count <= 40; ++count) {
    for (int world = 1; world <= 7; ++world) {
      for (std::size_t local_batch : {std::size_t{1}, std::size_t{2}, std::size_t{3},
                                      std::size_t{5}, std::size_t{50}, kAll}) {
        auto ranks = cursors(count, 0, world);
        const std::size_t steps = ranks[0].steps_left(global_batch(local_batch, world));
        Positions seen;
        advance(ranks, local_batch, steps, seen);
        EXPECT_EQ(seen, ascending(0, count));
        for (const EpochCursor& rank : ranks) EXPECT_TRUE(rank.done());
      }
    }
  }
}

TEST(EpochCursor, FullBatchesAreFullAndOnlyTheLastIsUneven) {
  for (std::size_t count = 1; count <= 40; ++count) {
    for (int world = 1; world <= 6; ++world) {
      for (std::size_t local_batch = 1; local_batch <= 5; ++local_batch) {
        auto ranks = cursors(count, 0, world);
        while (!ranks[0].done()) {
          const std::size_t left = count - ranks[0].consumed();
          const bool full = left >= local_batch * world;
          Positions sizes;
          for (EpochCursor& rank : ranks)
            sizes.push_back(rank.next(global_batch(local_batch, world)).size());
          const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
          EXPECT_LE(*most, local_batch);
          if (full) {
            EXPECT_EQ(*least, local_batch);
          } else {
            EXPECT_TRUE(ranks[0].done());
            EXPECT_LE(*most - *least, 1u);
          }
        }
        for (EpochCursor& rank : ranks)
          EXPECT_TRUE(rank.next(global_batch(local_batch, world)).empty());
      }
    }
  }
}

// Interrupted on `first` ranks after some steps, resumed on `second` ranks with another batch size.
TEST(EpochCursor, ResumesAtAnyWorldSizeExactlyOnce) {
  for (std::size_t count = 0; count <= 25; ++count) {
    for (int first = 1; first <= 5; ++first) {
      for (int second = 1; second <= 5; ++second) {
        for (std::size_t steps = 0; steps <= 4; ++steps) {
          auto before = cursors(count, 0, first);
          const std::size_t expected = before[0].consumed_after(steps, global_batch(2, first));
          Positions seen;
          advance(before, 2, steps, seen);
          EXPECT_EQ(before[0].consumed(), expected);
          EXPECT_EQ(seen, ascending(0, expected));
          auto after = cursors(count, before[0].consumed(), second);
          advance(after, 3, kAll, seen);
          EXPECT_EQ(seen, ascending(0, count));
        }
      }
    }
  }
}

TEST(EpochCursor, StepsLeftCountsTheUnevenLastStep) {
  EXPECT_EQ(EpochCursor(10, 0, 0, 2).steps_left(4), 3u);
  EXPECT_EQ(EpochCursor(10, 0, 0, 2, true).steps_left(4), 2u);
  EXPECT_EQ(EpochCursor(10, 2, 0, 2).steps_left(4), 2u);
  EXPECT_EQ(EpochCursor(0, 0, 0, 2).steps_left(4), 0u);
  EXPECT_EQ(EpochCursor(10, 10, 0, 2).steps_left(4), 0u);
}

TEST(EpochCursor, DropLastGivesEveryRankTheSame) {
  for (std::size_t count = 0; count <= 30; ++count) {
    for (int world = 1; world <= 5; ++world) {
      auto ranks = cursors(count, 0, world, true);
      const std::size_t steps = ranks[0].steps_left(global_batch(2, world));
      EXPECT_EQ(steps, count / (2 * world));
      Positions seen;
      advance(ranks, 2, kAll, seen);
      EXPECT_EQ(seen, ascending(0, steps * 2 * world));
      // The dropped rest counts as consumed: resuming from here starts the next epoch.
      for (const EpochCursor& rank : ranks) EXPECT_TRUE(rank.done());
    }
  }
}

TEST(EpochCursor, RefusesWhatCannotBe) {
  EXPECT_THROW(EpochCursor(5, 6, 0, 1), UsageError);
  EXPECT_THROW(EpochCursor(5, 0, 2, 2), UsageError);
  EXPECT_THROW(EpochCursor(5, 0, 0, 1).next(0), UsageError);
  EXPECT_THROW(EpochCursor(5, 0, 0, 1).steps_left(0), UsageError);
  EXPECT_THROW(EpochCursor(5, 0, 0, 1).consumed_after(1, 0), UsageError);
  EXPECT_THROW(global_batch(0, 3), UsageError);
  EXPECT_EQ(global_batch(2, 3), 6u);
  EXPECT_EQ(global_batch(kAll, 3), kAll);
  try {
    EpochCursor(5, 6, 0, 1);
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("5 samples"), std::string::npos);
  }
}

TEST(EpochCursor, GlobalBatchesNeedNotBeMultiplesOfTheWorld) {
  for (const bool drop_last : {false, true}) {
    std::vector<EpochCursor> ranks = cursors(23, 2, 3, drop_last);
    EXPECT_EQ(ranks[0].steps_left(8), drop_last ? 2u : 3u);
    std::vector<std::size_t> sizes;
    Positions seen;
    while (!ranks[0].done()) {
      for (EpochCursor& rank : ranks) {
        const Range share = rank.next(8);
        sizes.push_back(share.size());
        for (std::size_t p = share.begin; p < share.end; ++p) seen.push_back(p);
      }
    }
    EXPECT_EQ(seen, ascending(2, drop_last ? 18 : 23));
    const Positions last = drop_last ? Positions{0, 0, 0} : Positions{2, 2, 1};
    EXPECT_EQ(Positions(sizes.begin(), sizes.begin() + 3), (Positions{3, 3, 2}));
    EXPECT_EQ(Positions(sizes.end() - 3, sizes.end()), last);
  }
}

}  // namespace
}  // namespace convoy::data
