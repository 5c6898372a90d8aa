#include "convoy/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy::train {
namespace {

TEST(Schedule, Constant) {
  const Schedule s({}, 0.1, 10, 100);
  EXPECT_EQ(s.at(0), 0.1);
  EXPECT_EQ(s.at(99), 0.1);
}

TEST(Schedule, StepsAtMilestones) {
  ScheduleRecipe recipe{.name = "step", .milestones = {3, 6}, .gamma = 0.5};
  const Schedule s(recipe, 1, 10, 90);
  EXPECT_EQ(s.at(29), 1);
  EXPECT_EQ(s.at(30), 0.5);
  EXPECT_EQ(s.at(59), 0.5);
  EXPECT_EQ(s.at(60), 0.25);
  recipe.unit = "steps";
  EXPECT_EQ(Schedule(recipe, 1, 10, 90).at(3), 0.5);
}

// Kumar et al. 2017, section 5.3: 0.1 x k n / 256, reached by 5 epochs of linear warm-up from 0.1.
TEST(Schedule, WarmsUpLinearly) {
  const ScheduleRecipe recipe{
      .name = "step", .milestones = {30, 60}, .warmup = 5, .warmup_from = 0.125};
  const Schedule s(recipe, 0.8, 100, 9000);
  EXPECT_DOUBLE_EQ(s.at(0), 0.1);
  EXPECT_DOUBLE_EQ(s.at(250), 0.45);
  EXPECT_DOUBLE_EQ(s.at(500), 0.8);
  EXPECT_DOUBLE_EQ(s.at(2999), 0.8);
  EXPECT_DOUBLE_EQ(s.at(3000), 0.08);
}

TEST(Schedule, Cosine) {
  const ScheduleRecipe recipe{.name = "cosine", .unit = "steps", .end = 0.1, .warmup = 20};
  const Schedule s(recipe, 2, 1, 120);
  EXPECT_DOUBLE_EQ(s.at(0), 0);
  EXPECT_DOUBLE_EQ(s.at(10), 1);
  EXPECT_DOUBLE_EQ(s.at(20), 2);
  EXPECT_DOUBLE_EQ(s.at(70), 2 * (0.1 + 0.9 * 0.5));
  EXPECT_DOUBLE_EQ(s.at(120), 0.2);
  EXPECT_DOUBLE_EQ(s.at(500), 0.2);
}

}  // namespace
}  // namespace convoy::train
