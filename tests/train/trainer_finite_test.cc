// Trainings whose numbers are none any more, and disks that take no more metrics.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/train/trained.h"
#include "tests/train/steep_task.h"
#include "tests/train/trainer_fixture.h"
#include "train/diverged.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

class TrainerFiniteTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_steep_task(registry_);
  }
  // One checkpoint after each update, and the last alone stays.
  Recipe steep(const std::string& name, int at, Overrides overrides = {}) const {
    overrides.insert(overrides.end(), {"task.name=steep", "task.options.at=" + std::to_string(at),
                                       "checkpoint.every_steps=1", "checkpoint.keep=1",
                                       "checkpoint.keep_best=false"});
    return recipe(name, overrides);
  }
  static std::string newest(const Recipe& r) {
    all().barrier();
    return fs::path(CheckpointFolder(checkpoints_of(r)).newest()).filename();
  }
  static std::string checkpoints_of(const Recipe& r) { return r.output.folder + "/checkpoints"; }
};

bool begins(const std::string& text, const std::string& with) { return text.starts_with(with); }
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(TrainerFiniteTest, AGradientThatIsNoNumberIsNotApplied) {
  const Recipe r = steep("steep", 4);
  TrainerOptions options;
  options.progress = false;
  {
    Trainer trainer(test_world(), registry_, r, options);
    const std::string said = test::message_of<Failure>([&] { trainer.run(); });
    EXPECT_TRUE(begins(said, kDiverged + std::string("the norm of the gradient of step 4 is ")))
        << said;
    EXPECT_TRUE(has(said, ", with which no update was made, by the gradient of 'conv.")) << said;
    // The next loss has its gradient again.
    EXPECT_TRUE(has(said, "; run once more, it did not happen again; ")) << said;
    EXPECT_TRUE(has(said, "step-000000000003")) << said;
    EXPECT_EQ(newest(r), "step-000000000003");
    State now;
    describe_module(trainer.module(), now);
    const State saved = state_of(CheckpointFolder(checkpoints_of(r)).newest());
    for (const auto& [name, tensor] : now.model)
      EXPECT_TRUE(tensor.equal(saved.model.at(name))) << name;
  }
  const auto steps = rows(r, "step"), ends = rows(r, "end");
  ASSERT_EQ(steps.size(), 3u);
  for (const auto& row : steps) EXPECT_GT(row["gradient_norm"], 0);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0]["how"], "diverged");
  EXPECT_EQ(ends[0]["step"], 4);
  EXPECT_TRUE(begins(ends[0]["where"], "conv."));
  all().barrier();
}

// Whoever starts a run again without looking would have it end in the same way each time.
TEST_F(TrainerFiniteTest, ARunThatDivergedIsNotStartedAgainByItself) {
  const Recipe r = steep("steep", 4);
  refusal<Failure>(r);
  for (const char* how : {"latest", kResumeAuto}) {
    const std::string said = refusal(r, how);
    EXPECT_TRUE(has(said, "diverged after step 4 ('conv.")) << said;
    EXPECT_TRUE(has(said, "from step 3 it would end so again")) << said;
  }
  EXPECT_EQ(rows(r, "step").size(), 3u);
  // Who names the checkpoint wants it so; its fourth loss is that of step 7.
  const std::string again = refusal<Failure>(r, CheckpointFolder(checkpoints_of(r)).newest());
  EXPECT_TRUE(has(again, "the gradient of step 7 is ")) << again;
  EXPECT_EQ(newest(r), "step-000000000006");
  // With another recipe it may come further.
  EXPECT_EQ(train(steep("steep", 0), 0, kResumeAuto).steps, 18);
}

TEST_F(TrainerFiniteTest, NeitherIsOneWithoutACheckpoint) {
  const Recipe r = steep("early", 1);
  EXPECT_TRUE(has(refusal<Failure>(r), "there is no checkpoint yet"));
  all().barrier();
  const std::string said = refusal(r, kResumeAuto);
  EXPECT_TRUE(has(said, "begun again it would end so again")) << said;
  // What it has told is kept, however often that was.
  const Recipe later = steep("early", 2);
  EXPECT_TRUE(has(refusal<Failure>(later, kResumeAuto), "step-000000000001"));
  all().barrier();
  const std::string aside = checkpoints_of(r) + "/superseded-1/metrics.jsonl";
  EXPECT_TRUE(has(read_text_file(aside), "\"how\": \"diverged\""));
  EXPECT_EQ(rows(r, "run").size(), 1u);
  all().barrier();
}

// Whose scores are no numbers in evaluation alone.
class Blind final : public model::Network {
 public:
  explicit Blind(std::int64_t classes)
      : inner_(register_module("inner", std::make_shared<testing_data::Small>(classes, false, 0))) {
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = inner_->forward(x);
    return is_training() ? x : x * std::nan("");
  }
  std::array<std::int64_t, 3> image_shape() const override { return inner_->image_shape(); }
  std::int64_t classes() const override { return inner_->classes(); }

 private:
  std::shared_ptr<testing_data::Small> inner_;
};

TEST_F(TrainerFiniteTest, AnEvaluationWithoutALossIsNoScore) {
  registry_.add_model("blind",
                      [](const ModelRequest& r) { return std::make_shared<Blind>(r.classes); }, {});
  const Recipe r = recipe(
      "blind", {"model.name=blind", "training.target.metric=top1", "training.target.level=0"});
  testing::internal::CaptureStderr();
  const RunResult result = train(r);
  const std::string said = testing::internal::GetCapturedStderr();
  if (first()) {
    EXPECT_TRUE(has(said, "after step 6 the loss of the evaluation is nan, though all weights"))
        << said;
  }
  // What was trained is there, and neither the best nor good enough.
  EXPECT_EQ(result.steps, 18);
  EXPECT_FALSE(result.target_reached);
  EXPECT_FALSE(open_checkpoint(result.checkpoint).score);
  const auto evaluations = rows(r, "evaluation");
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_TRUE(evaluations[0]["top1"].is_null());
  EXPECT_TRUE(rows(r, "target").empty());
  all().barrier();
  // Nor is it asked for a class.
  const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
  Trained trained(test_world(), registry_, source);
  const std::vector<std::string> files = pictures(r);
  const std::vector<Answer> answers = trained.predict(files, 3);
  ASSERT_EQ(answers.size(), files.size());
  for (std::size_t i = 1; i < answers.size(); ++i) {
    EXPECT_TRUE(begins(answers[i].error, files[i] + ": the network's scores are no numbers"))
        << answers[i].error;
    EXPECT_TRUE(answers[i].lines.empty());
  }
  all().barrier();
}

class Masked final : public model::Network {
 public:
  Masked(std::int64_t classes, const std::shared_ptr<testing_data::Calls>& calls)
      : inner_(register_module(
            "inner", std::make_shared<testing_data::Small>(classes, false, 0, false, calls))),
        mask_(register_buffer("mask", torch::zeros({classes}))) {
    mask_[0] = -std::numeric_limits<double>::infinity();
  }
  torch::Tensor forward(torch::Tensor x) override {
    return inner_->forward(x) + mask_.nan_to_num(0, 0, -1);
  }
  std::array<std::int64_t, 3> image_shape() const override { return inner_->image_shape(); }
  std::int64_t classes() const override { return inner_->classes(); }

 private:
  std::shared_ptr<testing_data::Small> inner_;
  torch::Tensor mask_;
};

TEST_F(TrainerFiniteTest, ABufferMayBeMeantToHoldInfinities) {
  registry_.add_model(
      "masked",
      [this](const ModelRequest& r) { return std::make_shared<Masked>(r.classes, calls_); }, {});
  const Recipe r = recipe("masked", {"model.name=masked"});
  EXPECT_EQ(train(r, 7).steps, 7);
  const RunResult result = train(r, 0, "latest");
  EXPECT_EQ(result.steps, 18);
  EXPECT_TRUE(std::isinf(state_of(result.checkpoint).model.at("mask")[0].item<double>()));
}

// No file of this process may be larger.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { lift(); }
  void lift() const { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(TrainerFiniteTest, MetricsThatCannotBeWrittenEndNoRun) {
  if (all().size() > 1) GTEST_SKIP() << "ranks share memory through files";
  const Recipe r = recipe("full", {"training.epochs=0", "training.steps=300",
                                   "schedule.name=constant", "output.tensorboard=true",
                                   "checkpoint.every_epochs=0", "evaluation.every_epochs=0"});
  const FileLimit limit(30'000);
  calls_->on_training = [&] {
    if (calls_->training == 280) limit.lift();
  };
  testing::internal::CaptureStderr();
  const RunResult result = train(r);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.steps, 300);
  EXPECT_TRUE(fs::exists(result.checkpoint));
  EXPECT_EQ(count_of(said, "; training goes on, and tries again to write "), 2) << said;
  EXPECT_EQ(count_of(said, " could not be written"), 2) << said;
  const auto steps = rows(r, "step");
  EXPECT_LT(steps.size(), 290u);
  EXPECT_EQ(steps.back()["step"], 300);
  EXPECT_EQ(rows(r, "end").size(), 1u);
}

}  // namespace
}  // namespace convoy::train
