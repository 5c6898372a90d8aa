#include "train/due.h"

#include <gtest/gtest.h>

#include <limits>

#include "convoy/base/error.h"
#include "train/checkpoint/waits.h"
#include "train/samples/ahead.h"

namespace convoy::train {
namespace {

// 100 samples in batches of 30, the last of 10 or left out.
class Source final : public data::SampleSource {
 public:
  Source(std::uint64_t epoch, std::size_t consumed, bool over) : over_(over) {
    position_.epoch = epoch;
    if (consumed > 0) position_.consumed = {{0, consumed}};
  }
  std::size_t size() const override { return 100; }
  std::size_t batches_per_epoch() const override { return 4; }
  std::size_t batches_left() const override {
    return over_ ? 0 : (100 - position_.count() + 29) / 30;
  }
  data::Shape shape() const override { return {}; }
  void seek(const data::Position&) override {}
  const data::Batch* next() override { return nullptr; }
  data::Position position() const override { return position_; }
  bool epoch_over() const override { return over_; }
  data::SourceStatistics statistics() const override { return {}; }

 private:
  data::Position position_;
  bool over_;
};

Recipe three_epochs() {
  Recipe recipe;
  recipe.training.batch = 30;
  recipe.training.epochs = 3;
  recipe.data.has_validation = true;
  return recipe;
}

Moment within(std::uint64_t epoch, std::size_t consumed, std::int64_t step) {
  return {.epoch = epoch, .consumed = consumed, .samples = 100, .step = step};
}
Moment end_of(std::uint64_t epoch, std::int64_t step) {
  return {.epoch = epoch, .consumed = 100, .samples = 100, .epoch_over = true, .step = step};
}

TEST(Moment, SaysHowFarATrainingHasCome) {
  EXPECT_EQ(within(2, 25, 9).epochs(), 2.25);
  EXPECT_EQ(within(2, 25, 9).whole_epochs(), 2u);
  EXPECT_EQ(end_of(2, 12).epochs(), 3);
  EXPECT_EQ(end_of(2, 12).whole_epochs(), 3u);
  // Where the last batch is left out, an epoch is over before all is consumed.
  Moment short_of = end_of(0, 3);
  short_of.consumed = 90;
  EXPECT_EQ(short_of.epochs(), 1);
}

TEST(Due, EvaluatesAfterSoManySteps) {
  Recipe recipe = three_epochs();
  recipe.evaluation.every_epochs = 0;
  recipe.evaluation.every_steps = 5;
  const auto evaluates = [&](std::int64_t step, std::uint32_t requests = 0) {
    return due(recipe, within(1, 30, step), requests).evaluate;
  };
  EXPECT_FALSE(evaluates(4) || evaluates(6));
  EXPECT_TRUE(evaluates(5) && evaluates(10));
  EXPECT_FALSE(evaluates(5, kStop));
  EXPECT_FALSE(due_at_start(recipe, within(0, 0, 0), false).evaluate);
  EXPECT_TRUE(due_at_start(recipe, within(1, 30, 5), false).evaluate) << "was left out there";
  recipe.data.has_validation = false;
  EXPECT_FALSE(evaluates(5));
}

TEST(Moment, CountsTheStepsThatAreLeft) {
  Recipe recipe = three_epochs();
  EXPECT_EQ(moment_of(Source(0, 0, false), recipe, 0).steps, 12);
  const Moment now = moment_of(Source(1, 60, false), recipe, 6);
  EXPECT_EQ(now.steps, 12);
  EXPECT_EQ(now.epoch, 1u);
  EXPECT_EQ(now.consumed, 60u);
  EXPECT_EQ(now.samples, 100u);
  EXPECT_FALSE(now.epoch_over);
  EXPECT_EQ(moment_of(Source(1, 100, true), recipe, 8).steps, 12);
  EXPECT_EQ(moment_of(Source(2, 100, true), recipe, 12).steps, 12);
  EXPECT_EQ(moment_of(Source(7, 10, false), recipe, 50).steps, 50);  // too far already
  // With another batch than before, 50 updates may have led there.
  EXPECT_EQ(moment_of(Source(1, 60, false), recipe, 50).steps, 56);
  recipe.training = {.batch = 30, .steps = 20};
  EXPECT_EQ(moment_of(Source(1, 60, false), recipe, 6).steps, 20);
}

TEST(Due, TrainingIsDoneWhereThePositionOrTheStepsSaySo) {
  TrainingRecipe training{.batch = 30, .epochs = 3};
  EXPECT_FALSE(is_done(training, within(2, 90, 1000)));
  EXPECT_TRUE(is_done(training, end_of(2, 3)));
  EXPECT_TRUE(is_done(training, within(3, 0, 3)));
  training = {.batch = 30, .steps = 10};
  EXPECT_FALSE(is_done(training, end_of(100, 9)));
  EXPECT_TRUE(is_done(training, within(0, 10, 10)));
}

TEST(Due, NothingInTheMiddle) { EXPECT_EQ(due(three_epochs(), within(1, 30, 5), 0), Due{}); }

TEST(Due, AtTheEndOfAnEpoch) {
  Recipe recipe = three_epochs();
  const Due all{.evaluate = true, .end_epoch = true, .checkpoint = true};
  EXPECT_EQ(due(recipe, end_of(0, 4), 0), all);
  recipe.evaluation.every_epochs = 2;
  EXPECT_EQ(due(recipe, end_of(0, 4), 0), (Due{.end_epoch = true, .checkpoint = true}));
  EXPECT_EQ(due(recipe, end_of(1, 8), 0), all);
  recipe.checkpoint.every_epochs = 0;
  EXPECT_EQ(due(recipe, end_of(1, 8), 0), (Due{.evaluate = true, .end_epoch = true}));
  recipe.data.has_validation = false;
  EXPECT_EQ(due(recipe, end_of(1, 8), 0), (Due{.end_epoch = true}));
}

TEST(Due, CheckpointsEverySoManyStepsAndOnRequest) {
  Recipe recipe = three_epochs();
  EXPECT_EQ(due(recipe, within(1, 30, 5), kCheckpoint), (Due{.checkpoint = true}));
  recipe.checkpoint.every_steps = 5;
  EXPECT_EQ(due(recipe, within(1, 30, 5), 0), (Due{.checkpoint = true}));
  EXPECT_EQ(due(recipe, within(1, 60, 6), 0), Due{});
}

TEST(Due, EvaluatesEverySoManySteps) {
  Recipe recipe = three_epochs();
  recipe.evaluation.every_steps = 5;
  EXPECT_EQ(due(recipe, within(1, 30, 5), 0), (Due{.evaluate = true}));
  EXPECT_EQ(due(recipe, within(1, 60, 6), 0), Due{});
  EXPECT_EQ(due(recipe, within(1, 30, 5), kStop), (Due{.checkpoint = true, .end = true}));
  EXPECT_FALSE(due_at_start(recipe, within(0, 0, 0), false).evaluate);
  recipe.data.has_validation = false;
  EXPECT_EQ(due(recipe, within(1, 30, 5), 0), Due{});
  recipe.evaluation.from = "training";
  EXPECT_EQ(due(recipe, within(1, 30, 5), 0), (Due{.evaluate = true}));
}

TEST(Due, AtTheEndWhateverTheIntervals) {
  Recipe recipe = three_epochs();
  recipe.evaluation.every_epochs = recipe.checkpoint.every_epochs = 0;
  EXPECT_EQ(due(recipe, end_of(2, 12), 0),
            (Due{.evaluate = true, .end_epoch = true, .checkpoint = true, .end = true}));
  recipe.training = {.batch = 30, .steps = 7};
  EXPECT_EQ(due(recipe, within(1, 90, 7), 0),
            (Due{.evaluate = true, .checkpoint = true, .end = true}));
}

// What a stop has left out, or another batch has brought about.
TEST(Due, BeforeTheFirstUpdate) {
  Recipe recipe = three_epochs();
  recipe.checkpoint.every_steps = 5;
  EXPECT_EQ(due_at_start(recipe, within(0, 0, 0), false), Due{});
  EXPECT_EQ(due_at_start(recipe, within(1, 30, 5), false), Due{});
  EXPECT_EQ(due_at_start(recipe, end_of(0, 4), true), (Due{.evaluate = true, .checkpoint = true}));
  EXPECT_EQ(due_at_start(recipe, end_of(0, 4), false),
            (Due{.evaluate = true, .end_epoch = true, .checkpoint = true}));
  EXPECT_EQ(due_at_start(recipe, end_of(2, 12), true),
            (Due{.evaluate = true, .checkpoint = true, .end = true}));
  recipe.evaluation.every_epochs = 2;
  EXPECT_EQ(due_at_start(recipe, end_of(0, 4), true), Due{});
  recipe.data.has_validation = false;
  EXPECT_EQ(due_at_start(recipe, end_of(2, 12), true), (Due{.checkpoint = true, .end = true}));
}

TEST(Due, AnEpochIsOverWhereNoBatchIsLeft) {
  Recipe recipe = three_epochs();  // batches of 30
  const auto over = [&](std::size_t consumed) {
    return is_over({.epoch = 0, .consumed = {{0, consumed}}}, 100, recipe);
  };
  EXPECT_FALSE(over(70));
  EXPECT_FALSE(over(99));
  EXPECT_TRUE(over(100));
  recipe.data.drop_last = true;
  EXPECT_FALSE(over(70));
  EXPECT_TRUE(over(71));
}

// Whoever is told to stop has little time.
TEST(Due, WhenToldToStopNothingIsEvaluated) {
  const Recipe recipe = three_epochs();
  EXPECT_EQ(due(recipe, within(1, 30, 5), kStop), (Due{.checkpoint = true, .end = true}));
  EXPECT_EQ(due(recipe, end_of(1, 8), kStop | kCheckpoint),
            (Due{.end_epoch = true, .checkpoint = true, .end = true}));
  EXPECT_EQ(due(recipe, end_of(2, 12), kStop),
            (Due{.end_epoch = true, .checkpoint = true, .end = true}));
}

TEST(Due, SinceAnEarlierMomentIsWhatWouldHaveBeen) {
  Recipe recipe = three_epochs();
  recipe.evaluation.every_steps = 5;
  recipe.checkpoint.every_epochs = 2;
  // Step by step as after each.
  EXPECT_EQ(due_since(recipe, within(0, 30, 1), within(0, 60, 2), 0),
            due(recipe, within(0, 60, 2), 0));
  EXPECT_EQ(due_since(recipe, within(0, 90, 3), end_of(0, 4), 0), due(recipe, end_of(0, 4), 0));
  EXPECT_EQ(due_since(recipe, end_of(0, 4), within(1, 30, 5), 0), due(recipe, within(1, 30, 5), 0));
  EXPECT_EQ(due_since(recipe, within(2, 90, 11), end_of(2, 12), 0), due(recipe, end_of(2, 12), 0));
  // Several at once.
  EXPECT_EQ(due_since(recipe, within(0, 90, 3), within(0, 90, 4), 0), Due());
  EXPECT_EQ(due_since(recipe, within(0, 90, 3), within(1, 60, 6), 0),
            (Due{.evaluate = true, .end_epoch = true}));
  EXPECT_EQ(due_since(recipe, within(0, 90, 3), within(2, 30, 9), 0),
            (Due{.evaluate = true, .end_epoch = true, .checkpoint = true}));
  EXPECT_EQ(due_since(recipe, within(1, 30, 6), within(1, 60, 6), kCheckpoint),
            (Due{.checkpoint = true}));
  EXPECT_EQ(due_since(recipe, within(1, 30, 6), within(1, 60, 6), kStop),
            (Due{.checkpoint = true, .end = true}));
}

TEST(CheckpointsThatAreWaitedFor, AreToldOnceWhereTheyTakeATenthOfTraining) {
  CheckpointWaits waits;
  EXPECT_FALSE(waits.add(9, 20));    // not for long
  EXPECT_FALSE(waits.add(2, 1000));  // a small part of it
  EXPECT_FALSE(waits.add(50, 1000));
  EXPECT_TRUE(waits.add(60, 1100));
  EXPECT_EQ(waits.waited_s(), 121);
  EXPECT_FALSE(waits.add(1000, 2000));
}

TEST(BatchesAhead, AreWarnedOfWhereTheHostHasNotTheMemory) {
  constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
  EXPECT_EQ(too_far_ahead(4, kGib, 2, 12 * kGib), "");
  const std::string said = too_far_ahead(4, kGib, 2, 12 * kGib - 1);
  EXPECT_NE(said.find("data.ahead is 4: up to 6 batches of 1 GiB wait on each rank"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find(" in all"), std::string::npos) << said;
  EXPECT_NE(too_far_ahead(1024, 150 << 20, 1, 16 * kGib), "");
  EXPECT_EQ(too_far_ahead(1024, 0, 64, 0), "");
}

}  // namespace
}  // namespace convoy::train
