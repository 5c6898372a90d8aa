// Checkpoints that are written while a run goes on with other things.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/base/patience.h"
#include "tests/train/trainer_fixture.h"
#include "train/checkpoint/resume.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// Another run has found no sign of life of this one, and taken the folder.
void take_over(const std::string& folder) {
  test::spill(folder + "/lock", R"({"command": "another", "pid": 1, "host": "elsewhere"})");
}

TEST_F(TrainerTest, AFolderThatIsTakenOverWhileACheckpointIsWrittenGetsNone) {
  const Recipe r = recipe("taken", {"checkpoint.every_steps=2"});
  TrainerOptions options;
  options.progress = false;
  Trainer trainer(test_world(), registry_, r, options);
  calls_->training = 0;
  // In the update after the one with the checkpoint: nobody has asked yet whether it is written.
  if (first()) {
    calls_->on_training = [&] {
      if (calls_->training == 3) take_over(r.output.folder);
    };
  }
  const std::string said = test::message_of<Failure>([&] { trainer.run(); });
  calls_->on_training = nullptr;
  EXPECT_NE(said.find("/step-000000000002 was not written: "), std::string::npos) << said;
  EXPECT_NE(said.find("was taken over by 'another'"), std::string::npos) << said;
  all().barrier();
  EXPECT_EQ(test::entries(r.output.folder + "/checkpoints"), 0u);
  all().barrier();
}

TEST_F(TrainerTest, ACheckpointGetsItsNameDuringALongEvaluation) {
  const int ranks = test_world().size();
  const Recipe r = recipe("evaluated", {"checkpoint.every_steps=5", "training.epochs=1",
                                        "data.validation.size=" + std::to_string(1000 * ranks),
                                        "evaluation.batch=" + std::to_string(ranks)});
  const std::string checkpoint = r.output.folder + "/checkpoints/step-000000000005";
  TrainerOptions options;
  options.progress = false;
  bool there = false;
  if (first()) {
    // Before each of a thousand batches; the thread that writes gets the time that it needs.
    options.should_stop = [&, pause = std::chrono::milliseconds(0)]() mutable {
      if (calls_->evaluation == 0 || there) return false;
      there = fs::exists(checkpoint);
      pause = std::min(pause + std::chrono::milliseconds(10),
                       std::chrono::milliseconds(test::patience()) / 1000);
      if (!there) std::this_thread::sleep_for(pause);
      return false;
    };
  }
  Trainer trainer(test_world(), registry_, r, options);
  calls_->evaluation = 0;
  EXPECT_EQ(trainer.run().steps, 6);
  EXPECT_TRUE(there || !first());
}

// A network that keeps something of its own besides statistics: what it has seen on this rank.
class Keeping final : public model::Network {
 public:
  explicit Keeping(std::int64_t classes) : inner_(classes, true, 0) {
    register_module("inner", inner_ptr());
    // As large as what is divided among ranks.
    seen_ = register_buffer("seen", torch::zeros({1000, 300}, torch::kDouble));
    register_buffer("mask", torch::ones({1000}, torch::kDouble));
  }
  torch::Tensor forward(torch::Tensor x) override {
    if (is_training()) {
      const torch::NoGradGuard no_grad;
      seen_.add_(x.sum());
    }
    return inner_.forward(x);
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return inner_.classes(); }

 private:
  // Of this object's own.
  std::shared_ptr<testing_data::Small> inner_ptr() {
    return {&inner_, [](testing_data::Small*) {}};
  }
  testing_data::Small inner_;
  torch::Tensor seen_;
};

// With synchronized statistics, too, each rank goes on with what it had, and a checkpoint's model
// has the mean, whole.
TEST_F(TrainerTest, BuffersOfANetworksOwnAreNotMixedAmongRanks) {
  registry_.add_model(
      "keeping", [](const ModelRequest& r) { return std::make_shared<Keeping>(r.classes); }, {});
  for (const char* statistics : {"local", "synchronized"}) {
    const std::string how = statistics;
    const Overrides overrides{"model.name=keeping", "sync.batch_norm=" + how, "data.drop_last=true",
                              "data.on_bad=fail"};
    const Recipe whole = recipe("whole" + how, overrides), parts = recipe("parts" + how, overrides);
    const RunResult expected = train(whole);
    const State state = state_of(expected.checkpoint);
    const torch::Tensor seen = state.model.at("seen");
    EXPECT_GT(seen[0][0].item<double>(), 0);
    EXPECT_TRUE(seen.eq(seen[0][0]).all().item<bool>()) << how;
    // A rank's own are only those that differ.
    std::set<std::string> own;
    for (const StoredTensor& tensor : open_checkpoint(expected.checkpoint).tensors) {
      if (tensor.group == TensorGroup::rank) own.insert(tensor.name);
    }
    EXPECT_EQ(own.contains("0/seen"), test_world().size() > 1) << how;
    EXPECT_FALSE(own.contains("0/mask")) << how;
    all().barrier();
    TrainerOptions options;
    options.progress = false;
    int asked = 0;
    options.should_stop = [&] { return ++asked >= 4; };
    EXPECT_TRUE(Trainer(test_world(), registry_, parts, options).run().stopped);
    options.should_stop = nullptr;
    options.resume = "latest";
    const RunResult resumed = Trainer(test_world(), registry_, parts, options).run();
    EXPECT_TRUE(same_tensors(expected.checkpoint, resumed.checkpoint)) << how;
    all().barrier();
  }
}

// Rates that make of the sixth update what no float32 can hold, though its loss is a number.
const std::vector<std::string> kDiverging{
    "precision=float32",          "checkpoint.every_steps=1",    "checkpoint.keep=1",
    "checkpoint.keep_best=false", "evaluation.every_epochs=0",   "schedule.name=step",
    "schedule.unit=steps",        "schedule.milestones=[5]",     "schedule.gamma=1e45",
    "training.target.level=0",    "training.target.metric=top1", "evaluation.every_steps=6"};

TEST_F(TrainerTest, WeightsThatAreNoNumbersAreNeitherSavedNorEvaluated) {
  for (const char* steps : {"6", "9"}) {  // it is the last, and it is not
    auto overrides = kDiverging;
    overrides.push_back(std::string("training.steps=") + steps);
    const Recipe r = recipe(std::string("diverging") + steps, overrides);
    const std::string said = refusal<Failure>(r);
    EXPECT_NE(said.find("after step 6 '"), std::string::npos) << said;
    EXPECT_NE(said.find("' has values that are not finite; the last checkpoint before it is "),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("step-000000000005"), std::string::npos) << said;
    all().barrier();
    const std::string kept = CheckpointFolder(checkpoints_in(r.output.folder)).newest();
    EXPECT_EQ(fs::path(kept).filename(), "step-000000000005");
    for (const auto& [name, tensor] : state_of(kept).model)
      EXPECT_TRUE(torch::isfinite(tensor).all().item<bool>()) << name;
    EXPECT_TRUE(rows(r, "evaluation").empty());
    all().barrier();
  }
}

// The largest of scores that are no numbers is in some place, too.
TEST_F(TrainerTest, NoScoresMakeNoAccuracy) {
  const auto task = softmax_classification(recipe("scores"));
  TaskBatch batch;
  batch.tensors["labels"] = torch::zeros({2}, torch::kLong);
  std::vector<double> sums(task->sums());
  task->measure({torch::full({2, 3}, std::nan(""))}, batch, sums);
  for (const double figure : task->figures(sums)) EXPECT_TRUE(std::isnan(figure));
}

TEST_F(TrainerTest, AnEvaluationThatFailsTakesNoUpdatesWithIt) {
  Overrides bad{"data.validation.bad_first=7", "data.validation.bad_every=9", "training.epochs=1"};
  const Recipe r = recipe("failing", bad);
  // One rank alone meets it.
  EXPECT_NE(refusal(r).find("stripes[7]"), std::string::npos);
  all().barrier();
  EXPECT_EQ(fs::path(CheckpointFolder(checkpoints_in(r.output.folder)).newest()).filename(),
            "step-000000000006");
  bad.push_back("data.on_bad=skip");
  const RunResult result = train(recipe("failing", bad), 0, "latest");
  EXPECT_EQ(result.steps, 6);
  EXPECT_TRUE(result.evaluation);
}

// Classification of which a rank can't add up what it has measured.
class FailingFigures final : public Classification {
 public:
  FailingFigures(const Recipe& recipe, bool fails) : Classification(recipe), fails_(fails) {}
  void measure(const TensorList& outputs, const TaskBatch& batch,
               std::span<double> sums) const override {
    if (fails_) throw std::runtime_error("these figures are none");
    Classification::measure(outputs, batch, sums);
  }

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    return torch::nn::functional::cross_entropy(scores, labels);
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override {
    return scores.softmax(1);
  }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }

  bool fails_;
};

// The others fail where they wait for it, and no rank can save anything after that. Ranks are
// threads of the first one here, since their world ends.
TEST_F(TrainerTest, WhatIsDueIsSavedBeforeAnEvaluationInWhichARankFails) {
  if (!first()) return;
  const std::string folder = folder_ + "/alone";
  const auto train_on_three = [&](int failing, const std::string& resume) {
    comm::World::run_threads(3, [&](comm::World& world) {
      Registry registry;
      testing_data::add_small_world(registry);
      registry.add_task("failing",
                        [fails = world.rank() == failing](const Recipe& r) {
                          return std::make_unique<FailingFigures>(r, fails);
                        },
                        {{"label_smoothing", 0.0, ""}});
      const Recipe r = parse_recipe(
          {kRecipe, "test.toml", "/"},
          {"output.folder=\"" + folder + "\"", "task.name=failing", "training.epochs=1"},
          registry.vocabulary(), Files::must_exist);
      TrainerOptions options;
      options.progress = false;
      options.resume = resume;
      const RunResult result = Trainer(world, registry, r, options).run();
      EXPECT_EQ(result.steps, 6);
      EXPECT_TRUE(result.evaluation);
    });
  };
  EXPECT_ANY_THROW(train_on_three(1, ""));
  const CheckpointFolder checkpoints(checkpoints_in(folder));
  ASSERT_EQ(fs::path(checkpoints.newest()).filename(), "step-000000000006");
  EXPECT_FALSE(verify_checkpoint(checkpoints.newest()).score);
  train_on_three(-1, "latest");
  EXPECT_TRUE(verify_checkpoint(checkpoints.newest()).score);
  EXPECT_EQ(checkpoints.list().size(), 1u);
}

// Its normalization is as it was made, for good.
class Frozen final : public model::Network {
 public:
  explicit Frozen(std::int64_t classes) : classes_(classes) {
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(4));
    fc_ = register_module("fc", torch::nn::Linear(64, classes));
    norm_->eval();
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc_(torch::relu(norm_(conv_(x))).flatten(1));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

TEST_F(TrainerTest, WhatIsInEvaluationModeStaysThere) {
  registry_.add_model(
      "frozen", [](const ModelRequest& r) { return std::make_shared<Frozen>(r.classes); }, {});
  const RunResult result = train(recipe("frozen", {"model.name=frozen"}));
  const State state = state_of(result.checkpoint);
  EXPECT_EQ(state.model.at("norm.num_batches_tracked").item().toDouble(), 0);
  EXPECT_EQ(state.model.at("norm.running_mean").abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace convoy::train
