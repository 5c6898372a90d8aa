// Being told to stop, shares that are too small, and what ranks without samples count for.
#include <atomic>
#include <chrono>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/train/named_optimizer.h"
#include "tests/base/patience.h"
#include "tests/train/trainer_fixture.h"
#include "train/strategies/shares.h"

namespace convoy::train {
namespace {

using TrainerStopTest = TrainerTest;
using TrainerShareTest = TrainerTest;

// An update that takes long is not begun after a request to stop: what was asked for between two
// updates is not left to the end of the second.
TEST_F(TrainerStopTest, NoLongUpdateIsBegunAfterARequest) {
  calls_->pause = std::chrono::milliseconds(150);
  const Recipe r = recipe("long", {"output.log_samples=true", "precision=float32"});
  int asked = 0;
  TrainerOptions options;
  options.progress = false;
  // Before the first update and in it, before the second and in it, and before the third.
  if (first()) options.should_stop = [&] { return ++asked == 5; };
  const RunResult result = Trainer(test_world(), registry_, r, options).run();
  EXPECT_EQ(result.steps, 2);
  EXPECT_TRUE(result.stopped);
  // The batch that was ready comes again.
  EXPECT_EQ(open_checkpoint(result.checkpoint).position, (data::Position{0, 0, {{0, 24}}}));
  calls_->pause = std::chrono::milliseconds(0);
  EXPECT_EQ(train(r, 0, "latest").steps, 18);
  all().barrier();
  if (first()) expect_each_once(r, 3 * 61);
}

TEST_F(TrainerStopTest, BeforeTheFirstUpdateOfAPart) {
  calls_->pause = std::chrono::milliseconds(150);
  const Recipe r = recipe("early");
  EXPECT_EQ(train(r, 1).steps, 1);
  // Nothing is known of the first one's length.
  TrainerOptions options;
  options.resume = "latest";
  options.progress = false;
  if (first()) options.should_stop = [] { return true; };
  const RunResult result = Trainer(test_world(), registry_, r, options).run();
  EXPECT_EQ(result.steps, 1);
  EXPECT_TRUE(result.stopped);
}

// Whichever of them it is, and however far the others are: here one that waits for the first.
TEST_F(TrainerStopTest, ARequestToOneRankDuringSetUpIsToldToAll) {
  std::atomic<bool> told{false};
  registry_.add_model("waiting",
                      [&](const ModelRequest& r) {
                        const auto begin = Clock::now();
                        while (first() && !told && seconds_since(begin) < test::patience_s())
                          std::this_thread::sleep_for(std::chrono::milliseconds(1));
                        return std::make_shared<testing_data::Small>(r.classes, false, 0.0);
                      },
                      {});
  const Recipe r = recipe("set-up", {"model.name=waiting"});
  TrainerOptions options;
  options.progress = false;
  if (test_world().rank() + 1 == test_world().size()) options.should_stop = [] { return true; };
  bool touched = false;
  options.stop_in_set_up = [&] {
    touched = std::filesystem::exists(r.output.folder + "/metrics.jsonl");
    told = true;
  };
  const Trainer trainer(test_world(), registry_, r, options);
  EXPECT_TRUE(told);
  EXPECT_FALSE(touched);
}

// One that comes later is answered together: by run().
TEST_F(TrainerStopTest, AfterSetUpARequestToOneRankIsAnsweredBeforeTheFirstUpdate) {
  std::atomic<bool> asked{false}, told{false};
  TrainerOptions options;
  options.progress = false;
  if (test_world().rank() + 1 == test_world().size())
    options.should_stop = [&] { return asked.load(); };
  options.stop_in_set_up = [&] { told = true; };
  Trainer trainer(test_world(), registry_, recipe("between"), options);
  asked = true;
  const RunResult result = trainer.run();
  EXPECT_FALSE(told);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 0);
  EXPECT_EQ(open_checkpoint(result.checkpoint).step, 0);
}

// Nobody is told anything where a rank has found a mistake, and no thread waits for that rank.
TEST_F(TrainerStopTest, ASetUpThatIsGivenUpEndsTheWatchOnAllRanks) {
  TrainerOptions options;
  options.progress = false;
  options.should_stop = [] { return false; };
  options.stop_in_set_up = [] { FAIL() << "nobody has asked"; };
  const Recipe r = recipe("mistake", {"training.batch=62", "data.drop_last=true"});
  EXPECT_THROW(Trainer(test_world(), registry_, r, options), UsageError);
}

// A validation that is due, or under way, is broken off.
TEST_F(TrainerStopTest, AnEvaluationIsBrokenOff) {
  const Recipe r = recipe("evaluation", {"evaluation.batch=3"});
  TrainerOptions options;
  options.progress = false;
  // On one rank, in the middle of the first.
  if (first()) options.should_stop = [this] { return calls_->evaluation > 2; };
  RunResult part;
  {
    Trainer trainer(test_world(), registry_, r, options);
    calls_->evaluation = 0;
    part = trainer.run();
  }
  EXPECT_TRUE(part.stopped);
  EXPECT_EQ(part.steps, 6);
  EXPECT_FALSE(part.evaluation);
  EXPECT_EQ(open_checkpoint(part.checkpoint).step, 6);
  // The other ranks don't go through the other 11 batches.
  EXPECT_LE(calls_->evaluation, 5);
  // As often as somebody has no patience.
  {
    TrainerOptions again = options;
    again.resume = "latest";
    Trainer trainer(test_world(), registry_, r, again);
    calls_->evaluation = 0;
    EXPECT_TRUE(trainer.run().stopped);
  }
  EXPECT_EQ(train(r, 0, "latest").steps, 18);
  all().barrier();
  if (first()) EXPECT_EQ(rows(r, "evaluation").size(), 3u);
}

// One evaluation and one row for each epoch, as if the run had never stopped.
TEST_F(TrainerStopTest, StopsAtTheEndsOfEpochsLeaveNothingOut) {
  for (const bool drop_last : {false, true}) {
    const int epoch = drop_last ? 5 : 6;
    const std::string end = drop_last ? "-dropped" : "";
    const Overrides more{"checkpoint.keep=9", "model.options.norm=true",
                         std::string("data.drop_last=") + (drop_last ? "true" : "false")};
    const Recipe whole = recipe("whole" + end, more), r = recipe("parts" + end, more);
    const RunResult expected = train(whole);
    for (int part = 1; part <= 3; ++part) {
      const RunResult stopped = train(r, epoch, part == 1 ? "" : "latest");
      EXPECT_EQ(stopped.steps, part * epoch);
      EXPECT_TRUE(stopped.stopped);
      EXPECT_FALSE(open_checkpoint(stopped.checkpoint).score);
    }
    const RunResult result = train(r, 0, "latest");
    EXPECT_FALSE(result.stopped);
    ASSERT_TRUE(result.evaluation);
    EXPECT_EQ(result.evaluation->at("loss"), expected.evaluation->at("loss"));
    EXPECT_FALSE(train(r, 0, "latest").stopped);  // nothing is left
    all().barrier();
    const auto expect_the_same = [&] {
      for (const char* kind : {"epoch", "evaluation"}) {
        const auto all = rows(whole, kind), mine = rows(r, kind);
        ASSERT_EQ(all.size(), 3u);
        ASSERT_EQ(mine.size(), 3u) << kind;
        for (std::size_t i = 0; i < 3; ++i) {
          for (const char* key : {"step", "epoch", "samples", "loss"}) {
            EXPECT_EQ(mine[i][key], all[i][key]) << kind << i << key;
          }
        }
      }
      const CheckpointFolder mine(r.output.folder + "/checkpoints");
      const CheckpointFolder all(whole.output.folder + "/checkpoints");
      ASSERT_EQ(mine.list().size(), 3u);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(open_checkpoint(mine.list()[i]).score, open_checkpoint(all.list()[i]).score);
        EXPECT_TRUE(same_tensors(mine.list()[i], all.list()[i]));
      }
    };
    if (first()) expect_the_same();
    all().barrier();
    // Nor is anything said twice by a run that goes back.
    train(r, 0, CheckpointFolder(r.output.folder + "/checkpoints").list()[0]);
    all().barrier();
    if (first()) expect_the_same();
  }
}

// Told to stop in the last update: the evaluation is made up when the run is resumed.
TEST_F(TrainerStopTest, TheLastEvaluationIsMadeUp) {
  const Recipe r = recipe("last", {"training.epochs=1"});
  const RunResult part = train(r, 6);
  EXPECT_EQ(part.steps, 6);
  EXPECT_TRUE(part.stopped);
  EXPECT_FALSE(part.evaluation);
  EXPECT_FALSE(open_checkpoint(part.checkpoint).score);
  const RunResult rest = train(r, 0, "latest");
  EXPECT_FALSE(rest.stopped);
  EXPECT_EQ(rest.steps, 6);
  ASSERT_TRUE(rest.evaluation);
  EXPECT_EQ(open_checkpoint(rest.checkpoint).score, rest.evaluation->at("top1"));
  // Where there is nothing to evaluate, the last update is the end.
  const Recipe without = recipe("without", {"training.epochs=0", "training.steps=6"});
  Recipe plain = without;
  plain.data.has_validation = false;
  EXPECT_FALSE(train(plain, 6).stopped);
}

// Asked to stop while the only batch of an evaluation is computed: nothing of it is missing.
TEST_F(TrainerStopTest, AnEvaluationThatIsWholeCounts) {
  const Recipe r = recipe("counts", {"training.epochs=1", "evaluation.batch=40"});
  TrainerOptions options;
  options.progress = false;
  int asked = 0;  // after the last forward pass: for that update, then before the batch
  if (first()) options.should_stop = [&] { return calls_->training >= 6 && ++asked > 1; };
  Trainer trainer(test_world(), registry_, r, options);
  calls_->training = 0;
  const RunResult result = trainer.run();
  ASSERT_TRUE(result.evaluation);
  EXPECT_FALSE(result.stopped);
  EXPECT_TRUE(open_checkpoint(result.checkpoint).score);
  if (first()) EXPECT_GT(asked, 1);
}

TEST_F(TrainerShareTest, ASingleSampleForBatchNormalizationIsFoundBeforeTraining) {
  const Overrides pooled{"model.options.pooled=true"};
  const std::string said = refusal(recipe("one", pooled));
  EXPECT_NE(said.find("a batch of 1 sample comes up (61 in batches of 12)"), std::string::npos)
      << said;
  EXPECT_NE(said.find("set data.drop_last = true"), std::string::npos) << said;
  EXPECT_NE(refusal(recipe("each", {"model.options.pooled=true", "training.batch=1"}))
                .find("a batch of 1 sample comes up (61 in batches of 1)"),
            std::string::npos);
  EXPECT_EQ(train(recipe("dropped", {"model.options.pooled=true", "data.drop_last=true"})).steps,
            15);
}

// 12, and then 3: too few for two ranks of two. Micro-batches have two samples as well.
TEST_F(TrainerShareTest, SmallRemaindersAreSharedAmongFewerRanks) {
  const Overrides pooled{"model.options.pooled=true", "data.train.size=63", "training.accumulate=5",
                         "output.log_samples=true"};
  const Recipe r = recipe("few", pooled);
  EXPECT_EQ(train(r).steps, 18);
  all().barrier();
  if (!first()) return;
  expect_each_once(r, 3 * 63);
  EXPECT_EQ(rows(r, "step").back()["samples"], 3);
}

// What a check of shares asks for.
class ContextOf final : public TrainerContext {
 public:
  Recipe recipe_;
  std::unique_ptr<Task> task_;
  Moment moment_;

  const Recipe& recipe() const override { return recipe_; }
  const comm::World& world() const override { return test_world(); }
  const Moment& moment() const override { return moment_; }
  const Task& task() const override { return *task_; }
  const Compute& compute() const override { throw std::logic_error(""); }
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor>) const override {
    throw std::logic_error("");
  }
  data::SampleSource& samples() override { throw std::logic_error(""); }
  const data::Dataset& training_data() const override { throw std::logic_error(""); }
  const Schedule& schedule() const override { throw std::logic_error(""); }
  Timeline* timeline() override { return nullptr; }
  std::uint32_t requests() override { return 0; }
  bool updated(const StepReport&) override { return false; }
  void stopped() override {}
};

// Samples in memory are where they are: ranks can't take each other's.
TEST_F(TrainerShareTest, InMemoryEachRankNeedsTwo) {
  const auto world = static_cast<std::size_t>(test_world().size());
  ContextOf context;
  context.recipe_ = recipe("memory");
  context.task_ = registry_.make_task(context.recipe_);
  const auto fits = [&](const char* store, std::size_t left) {
    context.recipe_.data.store = store;
    context.moment_ = {.samples = 120 + left};
    return test::message_of<UsageError>([&] { check_least_share(context, 2, all_ranks(context)); })
        .empty();
  };
  for (std::size_t left = 0; left < 12; ++left) {
    EXPECT_EQ(fits("memory", left), left == 0 || left >= 2 * world) << left;
    EXPECT_EQ(fits("files", left), left != 1) << left;
  }
  // What is left of this epoch counts as well.
  context.moment_ = {.consumed = 119, .samples = 120};
  EXPECT_THROW(check_least_share(context, 2, all_ranks(context)), UsageError);
  context.recipe_.data.drop_last = true;
  EXPECT_NO_THROW(check_least_share(context, 2, all_ranks(context)));
  context.recipe_.data.drop_last = false;
  EXPECT_NO_THROW(check_least_share(context, 1, all_ranks(context)));
}

TEST_F(TrainerShareTest, ASampleThatIsLeftAloneByBadOnesIsLeftOut) {
  // Batches of 2 on each rank; of each pair in the data set's order one may be bad, in any batch.
  const int world = test_world().size();
  const Recipe r = recipe("alone", {"model.options.pooled=true", "data.on_bad=skip",
                                    "data.train.size=" + std::to_string(world * 12),
                                    "training.batch=" + std::to_string(world * 2),
                                    "data.train.bad_first=1", "data.train.bad_every=3"});
  EXPECT_EQ(train(r).steps, 18);
  all().barrier();
  if (!first()) return;
  double used = 0;
  for (const auto& row : rows(r, "step")) used += row["samples"].get<double>();
  const double skipped = rows(r, "step").back()["skipped"];
  EXPECT_EQ(used + skipped, 3 * world * 12);
  EXPECT_GT(skipped, 3 * world * 4);  // more than are bad
}

TEST_F(TrainerShareTest, SkippedRecordsOfAllRanksAreCounted) {
  const Recipe r =
      recipe("skipped", {"data.on_bad=skip", "data.train.bad_first=2", "data.train.bad_every=5",
                         "data.validation.bad_first=3", "data.validation.bad_every=10"});
  testing::internal::CaptureStderr();
  train(r);
  all().barrier();
  const std::string mine = testing::internal::GetCapturedStderr();
  std::string said;
  for (const std::string& text : all().gather_text(mine)) said += text;
  if (!first()) return;
  EXPECT_EQ(rows(r, "step").back()["skipped"], 3 * 12);
  for (const auto& row : rows(r, "evaluation")) {
    EXPECT_EQ(row["skipped"], 4);
    EXPECT_EQ(row["samples"], 36);
  }
  for (const char* name : {"stripes[2]", "stripes[57]", "stripes[3]", "stripes[33]"}) {
    const std::string text = std::string(name) + ": it is bad";
    const std::size_t at = said.find(text);
    EXPECT_NE(at, std::string::npos) << name << said;
    // However many epochs and evaluations there are. In another epoch another rank may meet it.
    if (all().size() == 1) EXPECT_EQ(said.find(text, at + 1), std::string::npos) << name << said;
  }
}

// Batches of 2: a third rank never has a sample, and its statistics are none.
TEST_F(TrainerShareTest, StatisticsAreMeansOverTheRanksThatHaveSome) {
  const int world = test_world().size();
  if (world == 1) GTEST_SKIP() << "needs two ranks";
  const Recipe r =
      recipe("statistics", {"model.options.norm=true", "training.batch=2", "training.epochs=0",
                            "training.steps=9", "data.train.size=60"});
  const std::string checkpoint = train(r).checkpoint;
  all().barrier();
  if (!first()) return;
  const Manifest manifest = open_checkpoint(checkpoint);
  const State united = state_of(checkpoint);
  for (const char* name : {"bn.running_mean", "bn.running_var"}) {
    torch::Tensor sum = torch::zeros({4}, torch::kDouble);
    for (int rank = 0; rank < world; ++rank) {
      const State own = read_checkpoint(checkpoint, manifest, rank, world);
      // What is equal everywhere, as the counter on two ranks, is in the model alone.
      const auto counter = own.rank.find("bn.num_batches_tracked");
      const torch::Tensor& counted =
          counter == own.rank.end() ? united.model.at("bn.num_batches_tracked") : counter->second;
      const auto batches = counted.item<std::int64_t>();
      EXPECT_EQ(batches, rank < 2 ? 9 : 0);
      if (batches > 0) sum += own.rank.at(name);
    }
    EXPECT_TRUE(torch::allclose(united.model.at(name), sum / 2, 1e-12, 1e-14)) << name;
  }
  EXPECT_EQ(united.model.at("bn.num_batches_tracked").item<std::int64_t>(), 9);
}

TEST_F(TrainerShareTest, ABatchLargerThanTheDataIsSaid) {
  testing::internal::CaptureStderr();
  train(recipe("large", {"training.batch=100"}));
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string expected = "training.batch is 100, but data.train holds 61: each update takes";
  EXPECT_EQ(said.find(expected) != std::string::npos, first()) << said;
  testing::internal::CaptureStderr();
  train(recipe("whole", {"training.batch=61"}));
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("but data.train holds"), std::string::npos);
  EXPECT_NE(refusal(recipe("none", {"training.batch=62", "data.drop_last=true"}))
                .find("drop_last leaves out batches"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::train
