// Computing and transfers side by side, with times worked out by hand.
#include "plan/step_simulation.h"

#include <gtest/gtest.h>

namespace {

using convoy::plan::StepSimulation;
using Transfer = StepSimulation::Transfer;

TEST(StepSimulation, HidesTransfersBehindComputing) {
  StepSimulation steps;
  const auto transfer = steps.start({.latency = 0.25, .out = {0.5}, .in = {0.5}, .processor = {}});
  steps.compute(1);
  steps.wait(transfer);
  EXPECT_DOUBLE_EQ(steps.now(), 1);
  EXPECT_DOUBLE_EQ(steps.waited(), 0);
  EXPECT_DOUBLE_EQ(steps.under_way(), 0.75);
  EXPECT_DOUBLE_EQ(steps.computed(), 1);
}

TEST(StepSimulation, WaitsForWhatIsLeft) {
  StepSimulation steps;
  const auto transfer = steps.start({.latency = 0.5, .out = {2}, .in = {1}, .processor = {}});
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
  StepSimulation steps;
  // Rank 0 sends while rank 1 gets what rank 2 has: one link each, both ways.
  const auto first = steps.start({.out = {1, 0, 0}, .in = {0, 0, 1}});
  const auto second = steps.start({.out = {0, 0, 1}, .in = {0, 1, 0}});
  steps.wait(first);
  steps.wait(second);
  EXPECT_DOUBLE_EQ(steps.now(), 1);
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
