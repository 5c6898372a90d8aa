#include "convoy/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/golden/read.h"
#include "tests/train/own_keys.h"

namespace convoy::train {
namespace {

// 1000 samples in batches of 100: 10 steps an epoch.
Moment at_step(std::int64_t step) {
  Moment now;
  now.epoch = static_cast<std::uint64_t>(step) / 10;
  now.consumed = static_cast<std::size_t>(step) % 10 * 100;
  now.samples = 1000;
  now.step = step;
  return now;
}

const TrainingRecipe kNineEpochs{.batch = 100, .epochs = 9};

TEST(Schedule, Constant) {
  const Schedule s({}, 0.1, kNineEpochs, 10);
  EXPECT_EQ(s.at(at_step(0)), 0.1);
  EXPECT_EQ(s.at(at_step(89)), 0.1);
}

TEST(Schedule, StepsAtMilestones) {
  ScheduleRecipe recipe{
      .name = "step",
      .options = own_keys({{"milestones", std::vector<double>{3, 6}}, {"gamma", 0.5}})};
  const Schedule s(recipe, 1, kNineEpochs, 10);
  EXPECT_EQ(s.at(at_step(29)), 1);
  EXPECT_EQ(s.at(at_step(30)), 0.5);
  EXPECT_EQ(s.at(at_step(59)), 0.5);
  EXPECT_EQ(s.at(at_step(60)), 0.25);
  // The end of an epoch is the begin of the next.
  Moment end = at_step(29);
  end.consumed = 990;
  end.epoch_over = true;
  EXPECT_EQ(s.at(end), 0.5);
  recipe.unit = "steps";
  EXPECT_EQ(Schedule(recipe, 1, kNineEpochs, 10).at(at_step(2)), 1);
  EXPECT_EQ(Schedule(recipe, 1, kNineEpochs, 10).at(at_step(3)), 0.5);
}

// Kumar et al. 2017, section 5.3: 0.1 x k n / 256, reached by 5 epochs of linear warm-up from 0.1.
TEST(Schedule, WarmsUpLinearly) {
  const ScheduleRecipe recipe{.name = "step",
                              .warmup = 5,
                              .warmup_from = 0.125,
                              .options = own_keys({{"milestones", std::vector<double>{30, 60}}})};
  const Schedule s(recipe, 0.8, {.batch = 100, .epochs = 90}, 10);
  EXPECT_DOUBLE_EQ(s.at(at_step(0)), 0.1);
  EXPECT_DOUBLE_EQ(s.at(at_step(25)), 0.45);
  EXPECT_DOUBLE_EQ(s.at(at_step(50)), 0.8);
  EXPECT_DOUBLE_EQ(s.at(at_step(299)), 0.8);
  EXPECT_DOUBLE_EQ(s.at(at_step(300)), 0.08);
}

TEST(Schedule, Cosine) {
  const ScheduleRecipe recipe{
      .name = "cosine", .unit = "steps", .warmup = 20, .options = own_keys({{"end", 0.1}})};
  const Schedule s(recipe, 2, {.batch = 100, .steps = 120}, 10);
  EXPECT_DOUBLE_EQ(s.at(at_step(0)), 0);
  EXPECT_DOUBLE_EQ(s.at(at_step(10)), 1);
  EXPECT_DOUBLE_EQ(s.at(at_step(20)), 2);
  EXPECT_DOUBLE_EQ(s.at(at_step(70)), 2 * (0.1 + 0.9 * 0.5));
  EXPECT_DOUBLE_EQ(s.at(at_step(120)), 0.2);
  EXPECT_DOUBLE_EQ(s.at(at_step(500)), 0.2);
}

// In updates and in epochs of ten, and after the end as at it.
TEST(Schedule, PolynomialAndOneCycleAreTorchs) {
  for (const auto& golden : golden::read("schedules.json")["cases"]) {
    const auto& options = golden["options"];
    ScheduleRecipe recipe{.name = golden["name"]};
    recipe = with_defaults(recipe);
    for (const char* key : {"power", "pct_start", "div_factor", "final_div_factor"}) {
      if (options.contains(key) && recipe.options.has(key))
        recipe.options.set(key, options[key].get<double>());
    }
    const std::int64_t steps = golden["steps"];
    const double lr = golden["lr"];
    std::vector<TrainingRecipe> lengths{{.batch = 100, .steps = steps}};
    if (steps % 10 == 0) lengths.push_back({.batch = 100, .epochs = steps / 10});
    for (const TrainingRecipe& length : lengths) {
      const Schedule s(recipe, lr, length, 10);
      for (std::int64_t step = 0; step < steps; ++step) {
        const double wanted = golden["rates"][static_cast<std::size_t>(step)];
        EXPECT_NEAR(s.at(at_step(step)), wanted, 1e-12 * lr) << recipe.name << " " << step;
      }
      const double last = golden["rates"].back();
      EXPECT_NEAR(s.at(at_step(steps + 5)), recipe.name == "one_cycle" ? last : 0, 1e-12 * lr);
    }
  }
}

TEST(Schedule, PolynomialAfterAWarmUp) {
  const ScheduleRecipe recipe{.name = "polynomial",
                              .unit = "steps",
                              .warmup = 20,
                              .options = own_keys({{"end", 0.1}, {"power", 2.0}})};
  const Schedule s(recipe, 2, {.batch = 100, .steps = 120}, 10);
  EXPECT_DOUBLE_EQ(s.at(at_step(0)), 0);
  EXPECT_DOUBLE_EQ(s.at(at_step(10)), 1);
  EXPECT_DOUBLE_EQ(s.at(at_step(20)), 2);
  EXPECT_DOUBLE_EQ(s.at(at_step(70)), 2 * (0.1 + 0.9 * 0.25));
  EXPECT_DOUBLE_EQ(s.at(at_step(120)), 0.2);
}

// A rate that only falls, one that only rises, and a training of one update.
TEST(Schedule, OneCycleAtItsLimits) {
  ScheduleRecipe recipe{.name = "one_cycle", .options = own_keys({{"pct_start", 0.0}})};
  const TrainingRecipe ten{.batch = 100, .steps = 10};
  EXPECT_LT(Schedule(recipe, 1, ten, 10).at(at_step(1)),
            Schedule(recipe, 1, ten, 10).at(at_step(0)));
  recipe.options.set("pct_start", 1.0);
  EXPECT_NEAR(Schedule(recipe, 1, ten, 10).at(at_step(0)), 0.04, 1e-15);
  EXPECT_DOUBLE_EQ(Schedule(recipe, 1, ten, 10).at(at_step(9)), 1);
  for (const double part : {0.0, 0.3, 1.0}) {
    recipe.options.set("pct_start", part);
    const double rate = Schedule(recipe, 1, {.batch = 100, .steps = 1}, 10).at(at_step(0));
    EXPECT_GT(rate, 0);
    EXPECT_LE(rate, 1);
  }
}

// The one counted in epochs, the other in steps: the same training either way.
TEST(Schedule, UnitsMayDiffer) {
  const TrainingRecipe steps{.batch = 100, .steps = 90};
  for (const char* unit : {"epochs", "steps"}) {
    const double each = std::string(unit) == "epochs" ? 1 : 10;
    const ScheduleRecipe recipe{.name = "cosine", .unit = unit, .warmup = 2 * each};
    const Schedule a(recipe, 1, kNineEpochs, 10), b(recipe, 1, steps, 10);
    for (int step = 0; step <= 90; ++step) {
      const double expected =
          step < 20 ? step / 20.0 : (1 + std::cos(std::acos(-1.0) * (step - 20) / 70)) / 2;
      EXPECT_NEAR(a.at(at_step(step)), expected, 1e-12) << unit << step;
      EXPECT_NEAR(b.at(at_step(step)), expected, 1e-12) << unit << step;
    }
  }
}

// How many updates it took to get there, and how large they are, is of no account.
TEST(Schedule, AnotherBatchLeavesTheRateWhereItIs) {
  const ScheduleRecipe recipe{.name = "cosine", .warmup = 1.5};
  Moment other = at_step(45);
  other.step = 7;
  EXPECT_EQ(Schedule(recipe, 1, kNineEpochs, 10).at(at_step(45)),
            Schedule(recipe, 1, {.batch = 300, .epochs = 9}, 4).at(other));
}

// What one that Convoy doesn't bring is told: lr, its keys, where it is, and how long an update is.
TEST(Schedule, OneOfSomebodysOwnIsToldWhereItIs) {
  ScheduleKind kind;
  kind.name = "told";
  kind.options = {{"factor", 3.0, "doc"}};
  std::vector<double> told;
  kind.rate = [&told](const ScheduleRequest& r) {
    told = {r.lr, r.options.number("factor"), r.time, r.part, r.update};
    return 0.5;
  };
  const ScheduleRecipe recipe{
      .name = "told", .unit = "steps", .warmup = 20, .kind = std::make_shared<ScheduleKind>(kind)};
  const Schedule s(recipe, 2, {.batch = 100, .epochs = 12}, 10);
  EXPECT_EQ(s.at(at_step(70)), 0.5);
  EXPECT_EQ(told, (std::vector<double>{2, 3, 70, 0.5, 1.0 / 120}));
  EXPECT_EQ(s.at(at_step(10)), 0.25) << "half of its warm-up";
  EXPECT_EQ(told[2], 20) << "to what it has at its end";
  EXPECT_EQ(told[3], 0);
  EXPECT_THROW(Schedule({.name = "told"}, 2, kNineEpochs, 10), std::logic_error);
}

}  // namespace
}  // namespace convoy::train
