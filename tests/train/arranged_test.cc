// A world that is arranged: a strategy with a grid, half of the network on each of two partitions,
// and no samples read on half of the ranks.
#include "convoy/train/export.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/trained.h"
#include "tests/train/halves.h"
#include "tests/train/trainer_fixture.h"
#include "tests/train/words.h"

namespace convoy::train {
namespace {

class ArrangedTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_halves(registry_);
    testing_data::add_words(registry_);
  }
  bool even() const { return test_world().size() % 2 == 0; }
  Recipe chain(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), "model.name=chain");
    return recipe(name, overrides);
  }
  Recipe halves(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"strategy=halves", "grid.partitions=2"});
    return chain(name, overrides);
  }
  RunResult train_until(const Recipe& r, int updates, const std::string& resume = "") {
    TrainerOptions options;
    options.resume = resume;
    options.progress = false;
    int asked = 0;
    // Any rank may be told.
    if (test_world().rank() == test_world().size() - 1 && updates > 0)
      options.should_stop = [&] { return ++asked >= updates; };
    return Trainer(test_world(), registry_, r, options).run();
  }
};

TEST_F(ArrangedTest, TrainsAsTheWholeWould) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  for (const Overrides& how :
       {Overrides{}, Overrides{"model.options.dropout=0.5"}, Overrides{"training.clip_norm=0.05"},
        Overrides{"data.on_bad=skip", "data.train.bad_every=7"}}) {
    std::string name;
    for (const std::string& one : how) name += one.substr(one.size() - 4);
    const RunResult whole = train_until(chain("whole" + name, how), 0);
    const RunResult parts = train_until(halves("halves" + name, how), 0);
    EXPECT_EQ(whole.steps, parts.steps);
    EXPECT_NEAR(whole.loss, parts.loss, 1e-9);
    EXPECT_LT(largest_difference(whole.checkpoint, parts.checkpoint), 1e-9) << name;
    ASSERT_TRUE(parts.evaluation);
    EXPECT_EQ(parts.evaluation->samples, 40u);
    EXPECT_EQ(parts.evaluation->at("top1"), whole.evaluation->at("top1"));
    EXPECT_NEAR(parts.evaluation->at("loss"), whole.evaluation->at("loss"), 1e-9);
  }
}

TEST_F(ArrangedTest, StoppedAndResumedItSeesEachSampleOnce) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const Recipe whole = halves("uninterrupted"),
               parts = halves("parts", {"output.log_samples=true"});
  const std::string expected = train_until(whole, 0).checkpoint;
  EXPECT_EQ(train_until(parts, 3).steps, 3);
  // Three more, and in the evaluation after them it is asked twice.
  EXPECT_EQ(train_until(parts, 5, "latest").steps, 6);
  const RunResult end = train_until(parts, 0, "latest");
  EXPECT_EQ(end.steps, 18);
  EXPECT_EQ(largest_difference(expected, end.checkpoint), 0);
  all().barrier();
  if (first()) {
    expect_each_once(parts, 3 * 61);
    // Nobody else has read any.
    std::size_t readers = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(parts.output.folder + "/samples")) {
      readers += entry.path().extension() == ".log" ? 1 : 0;
    }
    EXPECT_EQ(readers, static_cast<std::size_t>(test_world().size()) / 2);
  }
  all().barrier();
}

TEST_F(ArrangedTest, WhatWasTrainedInPartsIsEvaluatedAndPredictsInParts) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const Recipe r = halves("used");
  const RunResult result = train_until(r, 0);
  all().barrier();
  const auto used = [&](const std::vector<std::string>& how) {
    return Trained(test_world(), registry_,
                   find_trained(registry_, r.output.folder, Which::newest, how));
  };
  Trained parts = used({}), whole = used({"strategy=sync", "grid.partitions=1"});
  const auto data = registry_.open_data(r.data.reader, r.data.validation);
  EXPECT_EQ(parts.evaluate(data).at("top1"), result.evaluation->at("top1"));
  const std::vector<std::string> files = pictures(r);
  const auto mine = parts.predict(files, 3), expected = whole.predict(files, 3);
  ASSERT_EQ(mine.size(), files.size());
  EXPECT_NE(mine[0].error, "");
  EXPECT_TRUE(mine[0].lines.empty());
  for (std::size_t i = 1; i < files.size(); ++i) {
    EXPECT_EQ(mine[i].lines.size(), 3u) << mine[i].error;
    EXPECT_EQ(mine[i].lines, expected[i].lines) << i;
  }
  EXPECT_NE(mine[1].lines, mine[20].lines);
}

// Each half takes its own of a file, and what is wrong with it is said of the whole.
TEST_F(ArrangedTest, PartsStartFromAFileOfTheWhole) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const std::string before = train_until(chain("before", {"seed=7"}), 4).checkpoint;
  const std::string file = folder_ + "/weights.safetensors", other = folder_ + "/other.safetensors";
  all().barrier();
  if (first()) {
    export_model(before, file, false);
    // Without one of the second half, with another shape in the first, and with a stranger.
    const SafetensorsFile opened(file);
    std::vector<TensorView> changed;
    for (TensorView view : opened.tensors()) {
      if (view.name == "fc.bias") view.name = "stranger";
      if (view.name == "conv.bias") view.shape = {2, 2};
      changed.push_back(view);
    }
    write_safetensors(other, changed);
  }
  all().barrier();
  const auto set = [](const std::string& path) { return "model.weights=\"" + path + "\""; };
  const auto both = [&](const std::string& name, Overrides how) {
    how.insert(how.end(), {"training.epochs=0", "training.steps=3"});
    const std::string whole = train_until(chain("whole" + name, how), 0).checkpoint;
    const RunResult parts = train_until(halves("halves" + name, how), 0);
    EXPECT_LT(largest_difference(whole, parts.checkpoint), 1e-9) << name;
    return parts.checkpoint;
  };
  const std::string fresh = both("fresh", {});
  EXPECT_GT(largest_difference(fresh, both("started", {set(file)})), 1e-3);
  both("partly", {set(other), "model.partial=true"});
  const std::string said = refusal(halves("refused", {set(other)}));
  for (const char* part :
       {"2 tensors match", "missing in the file: fc.bias", "not in the model: stranger",
        "conv.bias is [2, 2] in the file, [4] in the model"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_EQ(said, refusal(chain("refused", {set(other)})));
  // To use them without training.
  const Recipe r = halves("none", {set(file)});
  if (first()) test::spill(folder_ + "/r.toml", print_recipe(r, false));
  all().barrier();
  testing::internal::CaptureStderr();
  Trained parts(test_world(), registry_,
                find_trained(registry_, folder_ + "/r.toml", Which::newest, {}));
  const std::string told = testing::internal::GetCapturedStderr();
  if (first()) EXPECT_NE(told.find(file + ": "), std::string::npos) << told;
  Trained whole(test_world(), registry_,
                find_trained(registry_, folder_ + "/r.toml", Which::newest,
                             {"strategy=sync", "grid.partitions=1"}));
  const auto data = registry_.open_data(r.data.reader, r.data.validation);
  EXPECT_NEAR(parts.evaluate(data).at("loss"), whole.evaluate(data).at("loss"), 1e-9);
}

// Ranks that share a share must agree on who counts it: found before one of them is waited for.
TEST_F(ArrangedTest, AShareIsScoredByOneRank) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const std::string said = refusal(chain("forgetful", {"strategy=forgetful", "grid.partitions=2"}));
  const int ranks = test_world().size();
  EXPECT_NE(said.find((ranks == 2 ? " 1 share" : " 2 shares") +
                      std::string(", and 2 ranks answer for share 0: Strategy::infer")),
            std::string::npos)
      << said;
}

// As many ranks answer as there are shares, but not one for each.
class FirstShareTwice final : public testing_data::Halves {
 public:
  bool infer(const Task&, const Compute&, const data::Batch&, const UseOutputs&) override {
    return test_world().rank() < 2;
  }
};

TEST_F(ArrangedTest, EachShareIsScoredOnce) {
  if (test_world().size() != 4) GTEST_SKIP() << "needs four ranks";
  registry_.add_strategy("twice", [] { return std::make_unique<FirstShareTwice>(); }, {});
  const std::string said = refusal(chain("twice", {"strategy=twice", "grid.partitions=2"}));
  EXPECT_NE(said.find("2 shares, and 2 ranks answer for share 0: Strategy::infer"),
            std::string::npos)
      << said;
}

// Notes the first batch that it is to work on.
class Curious final : public testing_data::Halves {
 public:
  explicit Curious(std::optional<data::Batch>& seen) : seen_(seen) {}
  bool infer(const Task& task, const Compute& compute, const data::Batch& batch,
             const UseOutputs& use) override {
    if (!seen_) seen_ = batch;
    return Halves::infer(task, compute, batch, use);
  }

 private:
  std::optional<data::Batch>& seen_;
};

// For those who make tensors of what is in a batch, however little that is.
TEST_F(ArrangedTest, TheEmptyBatchThatShowsWhoScoresIsLikeAnEmptyShare) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  std::optional<data::Batch> seen;
  registry_.add_strategy("curious", [&seen] { return std::make_unique<Curious>(seen); }, {});
  train(chain("curious", {"strategy=curious", "grid.partitions=2", "data.pixel=bfloat16",
                          "training.epochs=1", "model.channels_last=false"}));
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->size(), 0u);
  EXPECT_EQ(seen->shape, testing_data::Stripes::kShape);
  EXPECT_EQ(seen->pixel, data::Pixel::bf16);
  EXPECT_EQ(seen->layout, data::Layout::planar);
  EXPECT_EQ(seen->views, 1);
}

TEST_F(ArrangedTest, AGridThatDoesNotFitIsSaid) {
  const int ranks = test_world().size();
  const std::string said = refusal(halves("grid", {"grid.replicas=5"}));
  EXPECT_NE(said.find("the grid of 5 x 2 (replicas x partitions)"), std::string::npos) << said;
  EXPECT_NE(said.find(": it is for 10 ranks (-n 10); "), std::string::npos) << said;
  EXPECT_NE(said.find("these would: " + std::to_string(ranks) + " x 1"), std::string::npos) << said;
  const std::string both = test::message_of<UsageError>([&] {
    chain("mistakes", {"strategy=halves", "grid.partitions=5", "optimizer.lr=-1",
                       R"(placement.layers=[{layers=["fcc"], how="replicated"}])"});
  });
  EXPECT_NE(both.find("chain has no layer that fits 'fcc'; did you mean fc"), std::string::npos)
      << both;
  EXPECT_NE(both.find("halves has at most 4 partitions"), std::string::npos) << both;
  EXPECT_NE(both.find("lr"), std::string::npos) << both;
}

}  // namespace
}  // namespace convoy::train
