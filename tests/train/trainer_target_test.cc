// Evaluations between epochs, of a part of the data, and trainings that end at a target.
#include "convoy/base/error.h"
#include "tests/train/many_labels.h"
#include "tests/train/trainer_fixture.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/resume.h"
#include "train/samples/random_part.h"

namespace convoy::train {
namespace {

const std::vector<std::string> kEveryTwo{"evaluation.every_epochs=0", "evaluation.every_steps=2"};

TEST_F(TrainerTest, EvaluatesEverySoManyUpdatesAndAtTheEnd) {
  const Recipe r = recipe(
      "every", {"evaluation.every_epochs=0", "evaluation.every_steps=4", "training.steps=10"});
  EXPECT_FALSE(train(r, 6).target_reached);
  const RunResult result = train(r, 0, "latest");
  EXPECT_FALSE(result.stopped);
  all().barrier();
  if (!first()) return;
  std::vector<int> steps;
  for (const auto& row : rows(r, "evaluation")) steps.push_back(row["step"]);
  EXPECT_EQ(steps, (std::vector<int>{4, 8, 10}));
}

TEST_F(TrainerTest, EvaluatesAPartThatIsTheSameInAllRuns) {
  auto losses_of = [this](const std::string& name, Overrides more) {
    more.insert(more.end(), kEveryTwo.begin(), kEveryTwo.end());
    more.push_back("training.steps=2");
    const Recipe r = recipe(name, more);
    train(r);
    all().barrier();
    const auto found = rows(r, "evaluation");
    all().barrier();
    return std::pair<int, double>(found.at(0)["samples"], found.at(0)["loss"]);
  };
  const std::string some = "evaluation.fraction=0.2";
  const std::string training = "evaluation.from=training";
  const auto part = losses_of("part", {some});
  EXPECT_EQ(part.first, 8);  // of 40
  // The same 8 after other weights and another order of training were drawn: with a rate of 0 and
  // the same weights, the same loss.
  const auto a = losses_of("a", {some, "optimizer.lr=0", "training.batch=12"});
  const auto b = losses_of("b", {some, "optimizer.lr=0", "training.batch=7", "evaluation.batch=3"});
  EXPECT_NEAR(a.second, b.second, 1e-12);
  const auto whole = losses_of("whole", {"optimizer.lr=0"});
  EXPECT_EQ(whole.first, 40);
  EXPECT_NE(a.second, whole.second);
  EXPECT_EQ(losses_of("training", {some, training}).first, 12);  // of 61
}

TEST_F(TrainerTest, TrainingDataCanBeEvaluatedWithoutOthers) {
  Recipe r = recipe("alone", {"evaluation.from=training"});
  r.data.has_validation = false;
  const RunResult result = train(r);
  ASSERT_TRUE(result.evaluation);
  EXPECT_EQ(result.evaluation->samples, 61u);
  all().barrier();
  if (first()) EXPECT_EQ(rows(r, "run").at(0)["evaluated"], "data.train");
}

TEST_F(TrainerTest, WhatCannotBeEvaluatedIsSaidBeforeTraining) {
  const Recipe r = recipe("unfit", {"data.size=6", "data.evaluate.resize=7"});
  const std::string message = refusal(r);
  EXPECT_NE(message.find("stripes[0]: examples of floats"), std::string::npos) << message;
  EXPECT_NE(message.find("resized (here from 6 x 6 to 7 x 7)"), std::string::npos) << message;
  all().barrier();
  EXPECT_FALSE(std::filesystem::exists(r.output.folder + "/metrics.jsonl"));
}

TEST(RandomPart, DependsOnTheSeedAndKeepsTheOrder) {
  const auto whole = std::make_shared<testing_data::Stripes>(50);
  const RandomPart part(whole, 0.2, 1), same(whole, 0.2, 1), other(whole, 0.2, 2);
  ASSERT_EQ(part.size(), 10u);
  bool differs = false;
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(part.in_whole(i), same.in_whole(i));
    EXPECT_EQ(part.key(i), whole->key(part.in_whole(i)));
    EXPECT_EQ(part.label(i), whole->label(part.in_whole(i)));
    if (i > 0) EXPECT_LT(part.in_whole(i - 1), part.in_whole(i));
    differs = differs || part.in_whole(i) != other.in_whole(i);
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(part.fingerprint(), same.fingerprint());
  EXPECT_NE(part.fingerprint(), whole->fingerprint());
  EXPECT_EQ(RandomPart(whole, 1e-6, 1).size(), 1u);
  EXPECT_EQ(RandomPart(whole, 1, 1).size(), 50u);
}

TEST(RandomPart, HasTheLabelsOfTheWhole) {
  const auto whole = std::make_shared<testing_data::ManyLabels>(50);
  const RandomPart part(whole, 0.2, 1);
  EXPECT_TRUE(part.label_lists());
  bool several = false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    EXPECT_EQ(part.labels(i), whole->labels(part.in_whole(i)));
    several = several || part.labels(i).size() > 1;
  }
  EXPECT_TRUE(several);
}

std::vector<std::string> with_target(const std::string& metric, const std::string& level) {
  std::vector<std::string> all = kEveryTwo;
  all.push_back("training.target.metric=" + metric);
  all.push_back("training.target.level=" + level);
  return all;
}

// Losses fall, accuracies rise; either ends at the first evaluation that is good enough.
TEST_F(TrainerTest, EndsAtTheFirstEvaluationThatReachesTheTarget) {
  const Recipe whole = recipe("whole", kEveryTwo);
  train(whole);
  all().barrier();
  const auto found = rows(whole, "evaluation");
  for (const char* metric : {"loss", "top1"}) {
    SCOPED_TRACE(metric);
    const bool loss = std::string(metric) == "loss";
    // Halfway between the first and the best value.
    double first_value = found.front()[metric], best = first_value;
    for (const auto& row : found) {
      const double value = row[metric];
      best = loss ? std::min(best, value) : std::max(best, value);
    }
    ASSERT_NE(best, first_value);
    const double level = (first_value + best) / 2;
    int expected = 0;
    for (const auto& row : found) {
      const double value = row[metric];
      if (expected == 0 && (loss ? value <= level : value >= level)) expected = row["step"];
    }
    ASSERT_GT(expected, 2);
    const Recipe r = recipe(metric, with_target(metric, std::to_string(level)));
    const RunResult result = train(r);
    EXPECT_EQ(result.steps, expected);
    EXPECT_TRUE(result.target_reached);
    EXPECT_FALSE(result.stopped);
    EXPECT_EQ(open_checkpoint(result.checkpoint).step, expected);
    all().barrier();
    if (first()) {
      const auto found_at = rows(r, "target");
      ASSERT_EQ(found_at.size(), 1u);
      EXPECT_EQ(found_at[0]["step"], expected);
      EXPECT_EQ(found_at[0]["metric"], metric);
    }
    all().barrier();
    // There is nothing more to do, whenever the next evaluation would be, unless the target is
    // another.
    for (const char* every : {"evaluation.every_steps=2", "evaluation.every_steps=17"}) {
      Overrides same = with_target(metric, std::to_string(level));
      same.push_back(every);
      const RunResult again = train(recipe(metric, same), 0, "latest");
      EXPECT_EQ(again.steps, expected);
      EXPECT_TRUE(again.target_reached);
      EXPECT_FALSE(again.evaluation);  // the checkpoint says it
      all().barrier();
      if (first()) {
        EXPECT_EQ(rows(r, "evaluation").size(), static_cast<std::size_t>(expected / 2));
        EXPECT_EQ(rows(r, "target").size(), 1u);
        EXPECT_EQ(rows(r, "end").back()["how"], "target");
      }
      all().barrier();
    }
    const RunResult on = train(recipe(metric, with_target(metric, loss ? "-1" : "1")), 0, "latest");
    EXPECT_EQ(on.steps, 18);
    EXPECT_FALSE(on.target_reached);
    EXPECT_FALSE(on.stopped);
    all().barrier();
    if (first()) EXPECT_EQ(rows(r, "target").size(), 0u);
    all().barrier();
  }
}

// The target's metric says which checkpoint is best, unless the recipe does.
TEST_F(TrainerTest, ATargetIsLookedForAgainWhereTheScoreIsAnotherMetrics) {
  train(recipe("scores", kEveryTwo), 4);  // by top1
  const RunResult on = train(recipe("scores", with_target("loss", "-0.1")), 0, "latest");
  EXPECT_EQ(on.steps, 18);
  EXPECT_FALSE(on.target_reached);
  // The checkpoint of the end has the score of another figure still: it is evaluated again.
  Overrides easy = with_target("loss", "100");
  easy.push_back("checkpoint.best=top1");
  const RunResult found = train(recipe("scores", easy), 0, "latest");
  EXPECT_EQ(found.steps, 18);
  EXPECT_TRUE(found.evaluation);
  EXPECT_TRUE(found.target_reached);
}

TEST_F(TrainerTest, AScoreOfOtherSamplesSaysNothingOfTheTarget) {
  const auto with = [this](const std::string& fraction) {
    Overrides words = with_target("loss", "100");
    words.push_back("evaluation.fraction=" + fraction);
    return recipe("samples", words);
  };
  EXPECT_EQ(train(with("0.5")).steps, 2);
  EXPECT_FALSE(train(with("0.5"), 0, "latest").evaluation);
  const RunResult whole = train(with("1"), 0, "latest");
  ASSERT_TRUE(whole.evaluation);
  EXPECT_EQ(whole.evaluation->samples, 40u);
  EXPECT_TRUE(whole.target_reached);
}

// Whatever a score comes from may change from one part of a run to the next.
TEST_F(TrainerTest, AScoreSaysNothingOfOtherDataOrOptions) {
  const auto with = [this](const std::string& change) {
    Overrides words = with_target("loss", "100");
    if (!change.empty()) words.push_back(change);
    return recipe("other", words);
  };
  const std::string start = train(with("")).checkpoint;
  const auto samples_of = [&](const std::string& change) {
    const RunResult result = train(with(change), 0, start);
    EXPECT_TRUE(result.target_reached) << change;
    EXPECT_EQ(result.steps, 2) << change;
    return result.evaluation ? result.evaluation->samples : 0;
  };
  EXPECT_EQ(samples_of(""), 0u);
  EXPECT_EQ(samples_of("data.validation.size=31"), 31u);
  // The checkpoint of this step has the score of that now.
  for (const char* change :
       {"data.mean=[0.25]", "data.deviation=[2]", "task.options.label_smoothing=0.25",
        "data.evaluate.crop=none", "precision=float32", "data.validation.bad_first=1"}) {
    EXPECT_EQ(samples_of(change), 40u) << change;
    EXPECT_EQ(samples_of(change), 0u) << change;  // nor again
  }
  // Where the data lie, and how they come here, says nothing.
  EXPECT_EQ(samples_of(""), 40u);
  for (const char* change : {"data.validation.path=/dev/null", "data.ahead=1", "evaluation.batch=3",
                             "data.augment.crop=random_padded"}) {
    EXPECT_EQ(samples_of(change), 0u) << change;
  }
}

TEST_F(TrainerTest, OtherValidationDataMakeAnotherBest) {
  const auto with = [this](const std::string& size) {
    return recipe("best", {"checkpoint.keep=1", "data.validation.size=" + size});
  };
  const Recipe r = with("40");
  const std::string end = train(r).checkpoint;
  const CheckpointFolder checkpoints(r.output.folder + "/checkpoints");
  const std::optional<double> before = open_checkpoint(end).score;
  testing::internal::CaptureStderr();
  const RunResult result = train(with("7"), 0, "latest");  // nothing is left to train
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(result.evaluation);
  EXPECT_EQ(result.evaluation->samples, 7u);
  all().barrier();
  EXPECT_EQ(checkpoints.best(), end);
  EXPECT_EQ(checkpoints.list(), std::vector<std::string>{end});
  EXPECT_EQ(open_checkpoint(end).score, result.evaluation->score("top1"));
  EXPECT_TRUE(before);
  if (first()) {
    EXPECT_NE(said.find("the best checkpoint is looked for anew"), std::string::npos) << said;
    const auto found = rows(r, "evaluation");
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found.back()["samples"], 7);
  }
  all().barrier();
  EXPECT_FALSE(train(with("7"), 0, "latest").evaluation);
}

// Whenever checkpoints are due, and over all parts of a run.
TEST_F(TrainerTest, ABetterScoreThanAllBeforeIsSaved) {
  const auto with = [this](const std::string& name, Overrides more) {
    more.insert(more.end(), kEveryTwo.begin(), kEveryTwo.end());
    more.push_back("checkpoint.keep=100");
    return recipe(name, more);
  };
  const auto saved = [](const Recipe& r) {
    std::vector<std::int64_t> steps;
    for (const std::string& path : CheckpointFolder(checkpoints_in(r.output.folder)).list())
      steps.push_back(*step_of(last_part(path)));
    return steps;
  };
  const Recipe r = with("best", {"checkpoint.every_epochs=3"});
  train(r, 8);
  train(r, 0, "latest");
  all().barrier();
  // 8 and 18 are the ends of its parts.
  double best = -1;
  std::vector<std::int64_t> expected;
  for (const auto& row : rows(r, "evaluation")) {
    const std::int64_t step = row["step"];
    const double score = row["top1"];
    if (score > best || step == 8 || step == 18) expected.push_back(step);
    best = std::max(best, score);
  }
  EXPECT_EQ(saved(r), expected);
  EXPECT_GT(expected.size(), 3u);
  EXPECT_LT(expected.size(), 9u);
  const std::string path = CheckpointFolder(checkpoints_in(r.output.folder)).best();
  EXPECT_NEAR(open_checkpoint(path).score.value(), best, 1e-6);
  all().barrier();
  // But not where nothing is to be saved as training gets on, or the best isn't kept.
  for (const auto& none : {Overrides{"checkpoint.every_epochs=0"},
                           Overrides{"checkpoint.every_epochs=3", "checkpoint.keep_best=false"}}) {
    const Recipe other = with("none" + std::to_string(none.size()), none);
    train(other);
    all().barrier();
    EXPECT_EQ(saved(other), std::vector<std::int64_t>{18}) << none.back();
    all().barrier();
  }
}

TEST_F(TrainerTest, AWarmUpInTheOtherUnitIsNoLongerThanTraining) {
  EXPECT_EQ(refusal(recipe("warm", {"schedule.unit=steps", "schedule.warmup=19"})),
            "schedule.warmup is 19 steps, longer than the training of 3 epochs: an epoch has 6 "
            "steps");
  EXPECT_EQ(refusal(recipe("warm", {"training.steps=17", "schedule.warmup=3"})),
            "schedule.warmup is 3 epochs, longer than the training of 17 steps: an epoch has 6 "
            "steps");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/warm/metrics.jsonl"));
  EXPECT_EQ(train(recipe("warm", {"schedule.unit=steps", "schedule.warmup=18"})).steps, 18);
}

TEST_F(TrainerTest, AnUnknownMetricIsAMistakeBeforeAnythingIsOpened) {
  Recipe r = recipe("typo");
  r.training.target = {.metric = "tpo1", .level = 0.9};  // of a program's own
  EXPECT_EQ(refusal(r),
            "training.target.metric is 'tpo1', but the task classification has no such metric; it "
            "has top1, top5, loss (did you mean top1?)");
  r.training.target = {.metric = "top1", .level = 98.5};
  EXPECT_EQ(refusal(r),
            "training.target.level is 98.5, but top1 is a fraction, from 0 to 1: 98.5% is 0.985");
  EXPECT_FALSE(std::filesystem::exists(r.output.folder));
}

}  // namespace
}  // namespace convoy::train
