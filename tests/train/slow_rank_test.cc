#include "train/logging/slow_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace convoy::train {
namespace {

constexpr int kEvery = 10;

// Gatherings of a synchronous run: a step takes all ranks as long as the slowest of them.
class Gatherings {
 public:
  Gatherings(int ranks, double noise) : ranks_(static_cast<std::size_t>(ranks)), noise_(noise) {}

  std::vector<PhaseSeconds> next(int slow_rank = -1, double factor = 1,
                                 Phase slow_phase = kForward) {
    std::vector<PhaseSeconds> all(ranks_);
    std::lognormal_distribution<double> scatter(0, noise_);
    double slowest = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const double much = noise_ > 0 ? scatter(random_) : 1;
      all[rank] = {0.01 * much, 0.1 * much, 0.2 * much, 0, 0.01 * much};
      if (static_cast<int>(rank) == slow_rank)
        all[rank][slow_phase] += (factor - 1) * own(all[rank]);
      slowest = std::max(slowest, own(all[rank]));
    }
    for (PhaseSeconds& rank : all) rank[kCommunication] = 0.02 + slowest - own(rank);
    return all;
  }

 private:
  std::size_t ranks_;
  double noise_;
  std::mt19937 random_{7};
};

TEST(SlowRank, IsNamedWithItsPhaseWithinFiftySteps) {
  for (const Phase phase : {kDataWait, kForward, kBackward, kUpdate}) {
    for (const double factor : {1.3, 2.0, 10.0}) {
      for (const int ranks : {2, 3, 4, 64}) {
        Gatherings gatherings(ranks, 0.02);
        SlowRankWatch watch;
        for (int i = 0; i < 20; ++i)
          ASSERT_FALSE(watch.add(kEvery, gatherings.next())) << ranks << " " << i;
        // It begins right after a gathering has begun: the first is not of slow steps alone, and
        // one more step passes until the last has arrived.
        std::optional<SlowRank> slow;
        int steps = kEvery - 1 + 1;
        for (int i = 0; i < 9 && !slow; ++i, steps += kEvery)
          slow = watch.add(kEvery, gatherings.next(1, factor, phase));
        ASSERT_TRUE(slow) << ranks << " ranks, " << factor;
        EXPECT_LE(steps, 50) << ranks << " ranks, " << factor;
        EXPECT_EQ(slow->rank, 1);
        EXPECT_EQ(slow->phase, phase);
        EXPECT_GT(slow->own_s, 1.2 * slow->others_s);
        EXPECT_EQ(slow->steps, 4 * kEvery);
      }
    }
  }
}

TEST(SlowRank, FromTheFirstStepOn) {
  Gatherings gatherings(4, 0.02);
  SlowRankWatch watch;
  int gathered = 0;
  std::optional<SlowRank> slow;
  while (!slow && gathered < 9) {
    slow = watch.add(kEvery, gatherings.next(3, 1.5));
    ++gathered;
  }
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 3);
  EXPECT_LT(gathered * kEvery, 50);
}

// No alarm in a balanced run, on a quiet machine or on a busy one.
TEST(SlowRank, NobodyIsNamedInABalancedRun) {
  for (const double noise : {0.0, 0.02, 0.1, 0.2}) {
    for (const int ranks : {1, 2, 4, 32}) {
      Gatherings gatherings(ranks, noise);
      SlowRankWatch watch;
      int named = 0;
      for (int i = 0; i < 2000; ++i) named += watch.add(kEvery, gatherings.next()) ? 1 : 0;
      EXPECT_LE(named, noise < 0.15 ? 0 : 2)
          << "in 20,000 steps of " << ranks << " ranks, " << noise;
    }
  }
}

TEST(SlowRank, LittleMoreThanTheOthersIsNotSlow) {
  Gatherings gatherings(4, 0.01);
  SlowRankWatch watch;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(watch.add(kEvery, gatherings.next(2, 1.15)));
}

TEST(SlowRank, OneHiccupIsNotSlow) {
  Gatherings gatherings(4, 0.02);
  SlowRankWatch watch;
  for (int i = 0; i < 60; ++i) {
    const bool hiccup = i % 7 == 5;
    EXPECT_FALSE(watch.add(kEvery, gatherings.next(hiccup ? 2 : -1, 20))) << i;
  }
}

// What everybody waits for is not one rank's fault.
TEST(SlowRank, AllSlowAlikeIsNobody) {
  Gatherings gatherings(4, 0.02);
  SlowRankWatch watch;
  for (int i = 0; i < 40; ++i) {
    auto ranks = gatherings.next();
    for (PhaseSeconds& rank : ranks) rank[kDataWait] += i > 10 ? 1 : 0;
    EXPECT_FALSE(watch.add(kEvery, ranks)) << i;
  }
}

TEST(SlowRank, IsNamedAgainOnlyAfterAPause) {
  Gatherings gatherings(4, 0.02);
  SlowRankWatch watch;
  int named = 0;
  const auto pass = [&](int count, int slow) {
    for (int i = 0; i < count; ++i) named += watch.add(kEvery, gatherings.next(slow, 2)) ? 1 : 0;
  };
  pass(50, 2);
  EXPECT_EQ(named, 1);
  pass(10, -1);
  pass(50, 2);
  EXPECT_EQ(named, 2);
  pass(20, 3);
  EXPECT_EQ(named, 3);
}

// Slow again before it may be named again: then as soon as it may.
TEST(SlowRank, IsNamedAgainWhenThePauseIsOver) {
  Gatherings gatherings(4, 0.02);
  SlowRankWatch watch;
  int named = 0;
  const auto pass = [&](int count, int slow) {
    for (int i = 0; i < count; ++i) named += watch.add(kEvery, gatherings.next(slow, 2)) ? 1 : 0;
  };
  pass(6, 2);
  EXPECT_EQ(named, 1);
  pass(5, -1);
  pass(500, 2);
  EXPECT_EQ(named, 2);
}

TEST(SlowRank, OneThatComesAndGoesIsNamedMoreAndMoreSeldom) {
  Gatherings gatherings(4, 0.02);
  SlowRankWatch watch;
  int named = 0;
  for (int i = 0; i < 2000; ++i)
    named += watch.add(kEvery, gatherings.next(i % 12 < 6 ? 1 : -1, 2)) ? 1 : 0;
  EXPECT_GE(named, 4);
  EXPECT_LE(named, 9);
}

TEST(SlowRank, LessThanHalfAMillisecondIsNotWorthAWord) {
  for (const double more : {0.004, 0.006}) {  // in 10 steps
    SlowRankWatch watch;
    int named = 0;
    for (int i = 0; i < 20; ++i) {
      const PhaseSeconds fast{0, 0.004, 0.004, 0.001 + more, 0};
      const PhaseSeconds slow{0, 0.004 + more, 0.004, 0.001, 0};
      named += watch.add(kEvery, {fast, fast, slow}) ? 1 : 0;
    }
    EXPECT_EQ(named, more > 0.005 ? 1 : 0) << more;
  }
}

TEST(SlowRank, SaysWhoAndWhere) {
  const SlowRank slow{.rank = 2,
                      .phase = kDataWait,
                      .steps = 40,
                      .own_s = 0.031,
                      .others_s = 0.02,
                      .phase_more_s = 0.0105};
  const std::string text = text_of(slow, "node7");
  EXPECT_EQ(text,
            "rank 2 on host node7 is slower than the others, which wait for it: over the last 40 "
            "steps it took 31.0 ms of its own for each, they 20.0 ms (+55%); most of it in data "
            "wait (+10.5 ms)");
}

}  // namespace
}  // namespace convoy::train
