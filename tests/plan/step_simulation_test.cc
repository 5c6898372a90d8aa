// Computing and transfers side by side, with times worked out by hand.
#include "plan/step_simulation.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using convoy::plan::Processor;
using convoy::plan::Spread;
using convoy::plan::StepSimulation;

// Of this rank alone.
Spread only(int rank, double load) { return {.other = load, .first = rank, .count = 1}; }

TEST(Spread, IsOfRanksCountedRound) {
  const Spread spread{.usual = 1, .other = 2, .first = 3, .count = 3};
  std::vector<double> all;
  for (int rank = 0; rank < 5; ++rank) all.push_back(spread.of(rank, 5));
  EXPECT_EQ(all, (std::vector<double>{2, 1, 1, 2, 2}));
  EXPECT_EQ(Spread{7}.of(4, 5), 7);
}

TEST(StepSimulation, HidesTransfersBehindComputing) {
  StepSimulation steps;
  const auto transfer = steps.start({.latency = 0.25, .out = {0.5}, .in = {0.5}});
  steps.compute(1);
  steps.wait(transfer);
  EXPECT_DOUBLE_EQ(steps.now(), 1);
  EXPECT_DOUBLE_EQ(steps.waited(), 0);
  EXPECT_DOUBLE_EQ(steps.under_way(), 0.75);
  EXPECT_DOUBLE_EQ(steps.computed(), 1);
}

TEST(StepSimulation, WaitsForWhatIsLeft) {
  StepSimulation steps;
  const auto transfer = steps.start({.latency = 0.5, .out = {2}, .in = {1}});
  steps.compute(1);
  steps.wait(transfer);
  EXPECT_DOUBLE_EQ(steps.now(), 2.5);
  EXPECT_DOUBLE_EQ(steps.waited(), 1.5);
}

TEST(StepSimulation, SharesLinksEvenly) {
  StepSimulation steps;
  const auto first = steps.start({.out = {1}, .in = {1}});
  const auto second = steps.start({.out = {3}, .in = {3}});
  // Each at half speed until the first has ended at 2, with 1 of the second's 3 moved.
  steps.wait(first);
  EXPECT_DOUBLE_EQ(steps.now(), 2);
  steps.wait(second);
  EXPECT_DOUBLE_EQ(steps.now(), 4);
}

TEST(StepSimulation, LinksOfDifferentRanksDontShare) {
  StepSimulation steps(3);
  // Rank 0 sends while rank 1 gets what rank 2 has: one link each, both ways.
  const auto first = steps.start({.out = only(0, 1), .in = only(2, 1)});
  const auto second = steps.start({.out = only(2, 1), .in = only(1, 1)});
  steps.wait(first);
  steps.wait(second);
  EXPECT_DOUBLE_EQ(steps.now(), 1);
}

TEST(StepSimulation, WhatAllSendSharesTheLinkOfWhoeverSendsMore) {
  // Rank 2 sends alone for 3 s, and each rank has 1 s for others.
  StepSimulation steps(4);
  const auto one = steps.start({.out = only(2, 3), .in = {.usual = 1, .first = 2, .count = 1}});
  const auto all = steps.start({.out = {1}, .in = {1}});
  steps.wait(all);
  EXPECT_DOUBLE_EQ(steps.now(), 2) << "half of rank 2's link";
  steps.wait(one);
  EXPECT_DOUBLE_EQ(steps.now(), 4);
}

TEST(StepSimulation, SharedProcessorsTakeLonger) {
  StepSimulation steps(1, Processor{.share = 0.25});
  steps.compute(1);
  EXPECT_DOUBLE_EQ(steps.now(), 4);
  EXPECT_DOUBLE_EQ(steps.computed(), 4);
}

TEST(StepSimulation, AQuotaIsSavedWhileWaiting) {
  // A fifth of each 0.1 s: 20 ms.
  StepSimulation steps(1, Processor{.share = 0.2, .period_s = 0.1});
  steps.compute(0.1);
  EXPECT_DOUBLE_EQ(steps.now(), 0.5) << "nothing was saved";
  steps.wait(steps.start({.latency = 0.05}));
  // 10 ms are saved, and 2.5 ms more come while they are used.
  steps.compute(0.0125);
  EXPECT_DOUBLE_EQ(steps.now(), 0.5625);
  steps.compute(0.01);
  EXPECT_DOUBLE_EQ(steps.now(), 0.6125);
  // No more than one period's, however long it waits: that period is won.
  steps.wait(steps.start({.latency = 10}));
  steps.compute(0.1);
  EXPECT_NEAR(steps.now(), 0.6125 + 10 + 0.5 - 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(steps.computed(), 0.5 + 0.0625 + 0.05 + 0.5);
}

TEST(StepSimulation, WhatTravelsUsesUpTheQuotaAsWell) {
  StepSimulation steps(1, Processor{.share = 0.2, .period_s = 0.1});
  // Half of the share goes into what travels: 5 ms are saved in 50.
  steps.wait(steps.start({.out = {0.05}, .processor = {0.025}}));
  steps.compute(0.00625);
  EXPECT_DOUBLE_EQ(steps.now(), 0.05625);
}

TEST(StepSimulation, TransfersSlowComputingDown) {
  StepSimulation steps;
  // A second that takes a quarter of the processor: 0.75 computed by its end.
  const auto transfer = steps.start({.out = {1}, .in = {1}, .processor = {0.25}});
  steps.compute(2);
  EXPECT_DOUBLE_EQ(steps.now(), 2.25);
  steps.wait(transfer);
  EXPECT_DOUBLE_EQ(steps.now(), 2.25);
  EXPECT_DOUBLE_EQ(steps.computed(), 2);
}

TEST(StepSimulation, TransfersTakeHalfOfAProcessorAtMost) {
  StepSimulation steps;
  // It would take all of it: 2 seconds beside computing, which gets 1 of them.
  const auto transfer = steps.start({.out = {1}, .in = {1}, .processor = {1}});
  steps.compute(1);
  EXPECT_DOUBLE_EQ(steps.now(), 2);
  steps.wait(transfer);
  EXPECT_DOUBLE_EQ(steps.now(), 2);
  // And more than its link gives while nothing computes.
  steps.wait(steps.start({.out = {1}, .in = {1}, .processor = {4}}));
  EXPECT_DOUBLE_EQ(steps.now(), 6);
}

TEST(StepSimulation, NothingTakesNoTime) {
  StepSimulation steps;
  steps.wait(steps.start({}));
  EXPECT_EQ(steps.now(), 0);
}

}  // namespace
