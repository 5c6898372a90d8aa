// Tasks of one's own: samples of different lengths, counted in tokens, with a loss and figures of
// their own; and what a recipe says of tasks.
#include "convoy/train/task.h"

#include "convoy/data/loader.h"
#include "convoy/train/trained.h"
#include "convoy/train/training_loss.h"
#include "tests/train/trainer_fixture.h"
#include "tests/train/words.h"
#include "train/facts.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

constexpr const char* kWords = R"(
name = "words"
precision = "float64"
[task]
name = "next_letter"
[model]
name = "reader"
[data]
reader = "words"
[data.train]
size = 90
[data.validation]
size = 31
[optimizer]
lr = 0.5
momentum = 0.9
[training]
batch = 64
epochs = 3
[output]
tensorboard = false
)";

// Pictures that count nothing.
class Uncounted final : public Classification {
 public:
  using Classification::Classification;
  double weight(const data::Batch&, data::Range) const override { return 0; }

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor&) const override {
    return scores.sum();
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override { return scores; }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }
};

class TaskTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_words(registry_);
  }
  Recipe words(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), "output.folder=\"" + folder_ + "/" + name + "\"");
    return parse_recipe({kWords, "words.toml", "/"}, overrides, registry_.vocabulary());
  }
  // To be stopped in mid-epoch.
  RunResult train_until(const Recipe& r, int updates, const std::string& resume = "") {
    TrainerOptions options;
    options.resume = resume;
    options.progress = false;
    int asked = 0;  // before the first update, and in each
    if (first() && updates > 0) options.should_stop = [&] { return ++asked > updates; };
    return Trainer(test_world(), registry_, r, options).run();
  }
};

// The reference: a plain LibTorch loop over the same batches.
std::map<std::string, torch::Tensor> plain_loop(const Registry& registry, const Recipe& r) {
  torch::manual_seed(static_cast<std::uint64_t>(r.seed));
  testing_data::Reader net;
  net.to(torch::kDouble);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  const auto task = registry.make_task(r);
  const auto data = registry.open_data(r.data.reader, r.data.train);
  const Compute compute(r);
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(r.training.batch);
  options.seed = static_cast<std::uint64_t>(r.seed);
  options.raw = true;
  options.cost = task->cost(*data);
  data::Loader loader(data, data::TransformOptions(), options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const data::Batch* batch = loader.next()) {
      const TaskBatch rows = task->tensors(*batch, {0, batch->size()}, compute);
      if (rows.weight == 0) continue;
      optimizer.zero_grad();
      task->loss({net.forward(task->inputs(rows).at(0))}, rows).backward();
      optimizer.step();
    }
  }
  std::map<std::string, torch::Tensor> weights;
  for (const auto& p : net.named_parameters()) weights[p.key()] = p.value().detach();
  return weights;
}

TEST_F(TaskTest, LossesOfAuxiliaryClassifiersAreWeighted) {
  const auto task = softmax_classification(recipe("weighted"));
  TaskBatch rows;
  rows.tensors["labels"] = torch::tensor({1, 0}, torch::kLong);
  torch::manual_seed(1);
  TensorList scores;
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    scores.push_back(torch::randn({2, 3}, torch::kDouble));
    losses.push_back(task->loss({scores.back()}, rows).item<double>());
  }
  EXPECT_NEAR(training_loss(*task, {0.4, 0.1}, scores, rows).item<double>(),
              losses[0] + 0.4 * losses[1] + 0.1 * losses[2], 1e-12);
  // Of a network that has none the task sees all outputs.
  EXPECT_NEAR(training_loss(*task, {}, scores, rows).item<double>(), losses[0], 1e-12);
}

TEST_F(TaskTest, TrainsAsAPlainLoopWouldOnAnyNumberOfRanks) {
  for (const std::string accumulate : {"1", "2"}) {
    const Recipe r = words("plain" + accumulate, {"training.accumulate=" + accumulate});
    const RunResult result = train_until(r, 0);
    const State state = state_of(result.checkpoint);
    // In float64; sums over tokens of ranks and parts are taken in another order.
    for (const auto& [name, weights] : plain_loop(registry_, r)) {
      EXPECT_LT((state.model.at(name) - weights).abs().max().item<double>(), 1e-9) << name;
    }
    ASSERT_TRUE(result.evaluation);
    EXPECT_EQ(result.evaluation->samples, 31u);
    EXPECT_GT(result.evaluation->at("right"), 0.2);
    EXPECT_LT(result.evaluation->at("perplexity"), 7);
    // Lower is better.
    EXPECT_EQ(open_checkpoint(result.checkpoint).score, -result.evaluation->at("perplexity"));
    if (!first()) continue;
    const auto steps = rows(r, "step");
    EXPECT_LE(steps.front()["tokens"], 64);
    EXPECT_GT(steps.front()["tokens"], 64 - 11);
    EXPECT_TRUE(steps.front().contains("tokens_per_s"));
    EXPECT_TRUE(rows(r, "evaluation").back().contains("perplexity"));
    EXPECT_FALSE(rows(r, "evaluation").back().contains("top1"));
  }
}

// Of a share, or of a part of it, all samples may count nothing: their mean loss is no number.
TEST_F(TaskTest, SamplesMayCountAnythingAndNothing) {
  for (const std::string worth : {"1", "0.5", "0.001"}) {
    for (const std::string accumulate : {"1", "2", "4"}) {
      const Recipe r = words("worth" + worth + "-" + accumulate,
                             {"task.options.worth=" + worth, "training.accumulate=" + accumulate});
      const State state = state_of(train_until(r, 0).checkpoint);
      for (const auto& [name, weights] : plain_loop(registry_, r)) {
        EXPECT_LT((state.model.at(name) - weights).abs().max().item<double>(), 1e-9)
            << name << " " << worth << " " << accumulate;
      }
    }
  }
  if (test_world().size() > 1) return;
  const std::string said = test::message_of<UsageError>(
      [&] { train_until(words("negative", {"task.options.worth=-1"}), 2); });
  EXPECT_NE(said.find("the task next_letter counts -"), std::string::npos) << said;
}

TEST_F(TaskTest, StoppedAndResumedItSeesEachTextOnce) {
  const Recipe whole = words("whole"), parts = words("parts", {"output.log_samples=true"});
  const std::string expected = train_until(whole, 0).checkpoint;
  EXPECT_TRUE(train_until(parts, 3).stopped);
  EXPECT_TRUE(train_until(parts, 4, "latest").stopped);
  const RunResult end = train_until(parts, 0, "latest");
  EXPECT_FALSE(end.stopped);
  EXPECT_EQ(largest_difference(expected, end.checkpoint), 0);
  all().barrier();
  if (first()) expect_each_once(parts, 3 * 90);
  all().barrier();
}

TEST_F(TaskTest, WhatWasTrainedIsEvaluatedAndPredicts) {
  const Recipe r = words("used");
  const RunResult result = train_until(r, 0);
  all().barrier();
  const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
  Trained trained(test_world(), registry_, source);
  const auto data = registry_.open_data(r.data.reader, r.data.validation);
  const Evaluation again = trained.evaluate(data);
  EXPECT_NEAR(again.at("perplexity"), result.evaluation->at("perplexity"), 1e-12);
  const auto answers = trained.predict({"abcd", "xyz"}, 3);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].lines.size(), 3u);
  EXPECT_TRUE(answers[0].error.empty());
  EXPECT_NE(answers[1].error.find("other letters"), std::string::npos);
}

TEST_F(TaskTest, MistakesInARecipeAreSaid) {
  const auto said = [&](const Overrides& overrides) {
    return test::message_of<UsageError>([&] { train_until(words("wrong", overrides), 1); });
  };
  EXPECT_NE(said({"checkpoint.best=top1"}).find("has no such metric; it has perplexity, right"),
            std::string::npos);
  EXPECT_NE(said({"checkpoint.best=perplexitty"}).find("did you mean perplexity"),
            std::string::npos);
  EXPECT_NE(said({"task.name=next_leter"}).find("did you mean next_letter"), std::string::npos);
  EXPECT_NE(said({"data.store=host"}).find("data.store"), std::string::npos);
  EXPECT_NE(said({"data.drop_last=true"}).find("drop_last"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/wrong/metrics.jsonl"));
}

TEST_F(TaskTest, AFactThatIsNoNumberIsTheSameAgain) {
  TaskFacts facts;
  facts.numbers = {{"letters", 7}, {"mean", std::nan("")}};
  testing_data::NextLetter task;
  task.restore(facts);
  Manifest saved;
  note(facts, saved);
  EXPECT_NO_THROW(check_facts(task, saved, "here"));
  facts.numbers["mean"] = 1;
  note(facts, saved);
  const std::string said = test::message_of<UsageError>([&] { check_facts(task, saved, "here"); });
  EXPECT_NE(said.find("its mean is nan, in the checkpoint it is 1"), std::string::npos) << said;
}

// Where no rank can be promised a sample, statistics over all of them would wait for ever.
TEST_F(TaskTest, SynchronizedStatisticsNeedBatchesCountedInSamples) {
  if (test_world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const std::string said = test::message_of<UsageError>(
      [&] { train_until(words("wrong", {"sync.batch_norm=synchronized"}), 1); });
  EXPECT_NE(said.find("set sync.batch_norm"), std::string::npos) << said;
}

TEST_F(TaskTest, WhereNothingCountsNothingIsLearned) {
  registry_.add_task("uncounted", [](const Recipe& r) { return std::make_unique<Uncounted>(r); },
                     {{"label_smoothing", 0.0, ""}});
  const Overrides uncounted{"task.name=uncounted", "data.drop_last=true"};
  Overrides longer = uncounted, all_ranks = uncounted;
  longer.push_back("training.epochs=4");
  all_ranks.push_back("sync.batch_norm=synchronized");
  const RunResult some = train(recipe("some", uncounted)), more = train(recipe("more", longer));
  EXPECT_EQ(more.steps, 20);
  EXPECT_EQ(more.loss, 0);
  EXPECT_EQ(largest_difference(some.checkpoint, more.checkpoint), 0);
  if (test_world().size() == 1) return;
  // The others would wait for the statistics of such a micro-batch for ever.
  const std::string said = refusal(recipe("all", all_ranks));
  EXPECT_NE(said.find("the task uncounted says that one of them counts nothing, with sample"),
            std::string::npos)
      << said;
}

// Batches that are counted in something else can leave a rank with one sample.
TEST_F(TaskTest, AModelThatNeedsTwoSamplesNeedsBatchesCountedInSamples) {
  const std::string said = test::message_of<UsageError>(
      [&] { train_until(words("norm", {"model.options.norm=true"}), 1); });
  EXPECT_NE(said.find("the model 'reader' can't be trained on one sample alone"), std::string::npos)
      << said;
  EXPECT_NE(said.find("next_letter"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/norm/recipe.toml"));
}

TEST_F(TaskTest, AllMistakesAreSaidTogether) {
  const std::string said = test::message_of<UsageError>([&] {
    recipe("wrong", {"task.options.label_smoothing=1.5", "sync.wire=paper", "grid.partitions=3",
                     "training.batch=0"});
  });
  for (const char* part : {"label_smoothing is 1.5", "sync.wire is 'paper'", "grid.partitions is 3",
                           "training.batch is missing"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  }
}

TEST_F(TaskTest, AGridHasToFitTheWorld) {
  const std::string said = refusal(recipe("grid", {"grid.replicas=7"}));
  EXPECT_NE(said.find("the grid of 7 x 1 (replicas x partitions) doesn't have"), std::string::npos)
      << said;
  EXPECT_NE(said.find(std::to_string(test_world().size()) + " x 1"), std::string::npos) << said;
}

}  // namespace
}  // namespace convoy::train
