// Trainings whose placement the planner chooses.
#include <algorithm>

#include "convoy/base/files.h"
#include "convoy/train/memory.h"
#include "convoy/train/planning.h"
#include "convoy/train/trained.h"
#include "tests/train/hybrid_fixture.h"
#include "train/run/place.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

// Tells how many samples somebody wanted to try out: some are measured, and two are enough to see
// what a network takes.
class Watched final : public Classification {
 public:
  Watched(const Recipe& recipe, std::shared_ptr<std::int64_t> most)
      : Classification(recipe),
        rows_(recipe.task.options.integer("rows")),
        cost_(recipe.task.options.integer("cost")),
        most_(std::move(most)) {}
  TaskBatch blank(std::int64_t samples, const Compute& compute) const override {
    *most_ = std::max(*most_, samples);
    return Classification::blank(rows_ * samples, compute);
  }
  std::function<std::uint64_t(std::size_t)> cost(const data::Dataset& data) const override {
    if (cost_ < 0) return {};
    return [half = data.size() / 2, most = static_cast<std::uint64_t>(cost_)](std::size_t sample) {
      return sample < half ? 0 : most;
    };
  }

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    return torch::nn::functional::cross_entropy(scores, labels);
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override {
    return scores.softmax(1);
  }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }

  std::int64_t rows_, cost_;
  std::shared_ptr<std::int64_t> most_;
};

// One of its layers has a unit that no two ranks can share.
model::Blueprint narrow_network(const ModelRequest& request) {
  model::Blueprint net = hybrid_network(request);
  net.stages[2].nodes[0].kind = model::layer::Linear{.in = 11, .out = 1};
  net.stages[3].nodes[0].kind = model::layer::Linear{.in = 1, .out = request.classes};
  return net;
}

class AutomaticTest : public HybridTest {
 protected:
  void SetUp() override {
    HybridTest::SetUp();
    add_network("narrow", narrow_network);
    std::vector<Option> options = registry_.vocabulary().tasks.at("classification");
    options.push_back({"rows", std::int64_t{1}, "that a made-up sample has"});
    options.push_back(
        {"cost", std::int64_t{-1}, "of samples of the second half; -1: they are counted"});
    registry_.add_task(
        "watched",
        [most = tried_](const Recipe& recipe) { return std::make_unique<Watched>(recipe, most); },
        options);
  }
  Recipe automatic(const std::string& name, const Overrides& how) const {
    return net(name, how + Overrides{"model.options.dropout=0.4"});
  }
  // That a run has written into its folder.
  Recipe written(const Recipe& recipe) const {
    return parse_recipe(read_recipe_file(recipe.output.folder + "/recipe.toml"), {},
                        registry_.vocabulary());
  }
  RunResult train(const Recipe& recipe, const std::string& resume = "", int stop_after = 0) {
    return train_on(ranks(), recipe, stop_after, resume);
  }

  const std::shared_ptr<std::int64_t> tried_ = std::make_shared<std::int64_t>(0);
};

// Whatever the planner chooses of all that there is becomes the recipe's own words.
TEST_F(AutomaticTest, ARecipeHasThePlacementThatWasChosen) {
  const Recipe automatic = net("any", {"strategy=auto"});
  plan::TrainingCost cost;
  cost.layers = {{.name = "divided", .units = 64}};
  std::set<std::string> texts;
  for (const plan::Placement& placement : plan::placements(cost, 8)) {
    if (placement.kind == plan::Parallelism::model) continue;
    const Recipe chosen = with_placement(automatic, placement);
    EXPECT_EQ(placement_of(chosen), placement) << plan::name_of(placement, 8);
    texts.insert(print_recipe(chosen, false));
  }
  EXPECT_GT(texts.size(), 15u);  // c in 2 and 4 passes among them
}

TEST_F(AutomaticTest, TrainsWhatItHasChosen) {
  for (const Overrides& how :
       {Overrides{"strategy=auto"}, Overrides{"strategy=hybrid", "placement=auto"}}) {
    const Recipe recipe = automatic("chosen_" + how.front().substr(9), how);
    const RunResult result = train(recipe);
    if (!first()) continue;
    Recipe chosen = written(recipe);
    EXPECT_FALSE(chosen.automatic());
    EXPECT_TRUE(chosen.strategy == "sync" || chosen.strategy == "hybrid") << chosen.strategy;
    if (how.size() > 1) EXPECT_EQ(chosen.strategy, "hybrid");
    EXPECT_EQ(ranks() % chosen.grid.partitions, 0);
    if (ranks() == 1) EXPECT_EQ(chosen.grid.partitions, 1);
    EXPECT_EQ(result.steps, 6);
  }
}

TEST_F(AutomaticTest, WhatIsChosenTrainsAsIfItHadBeenGiven) {
  const Recipe recipe = automatic("planned", {"strategy=hybrid", "placement=auto"});
  const RunResult planned = train(recipe);
  all().barrier();
  Recipe given = written(recipe);
  given.output.folder = folder_ + "/given";
  const RunResult again = train(given);
  if (first()) EXPECT_TRUE(same_tensors(planned.checkpoint, again.checkpoint));
}

TEST_F(AutomaticTest, ResumedItKeepsWhatItHad) {
  // Not what would be chosen of itself: one group, and one sender at a time.
  const Overrides how{"strategy=hybrid", "grid.partitions=" + std::to_string(ranks()),
                      "hybrid.scheme=bc", "hybrid.senders=1"};
  for (const std::string strategy : {"auto", "hybrid"}) {
    const std::string name = "kept_" + strategy;
    EXPECT_TRUE(train(automatic(name, how), "", 2).stopped);
    const Recipe recipe = automatic(name, {"strategy=" + strategy, "placement=auto"});
    const RunResult end = train(recipe, "latest");
    if (!first()) continue;
    const Recipe kept = written(recipe);
    EXPECT_EQ(kept.strategy, "hybrid");
    EXPECT_EQ(kept.grid.partitions, ranks());
    EXPECT_EQ(kept.strategy_options.text("scheme"), "bc");
    EXPECT_EQ(kept.strategy_options.integer("senders"), 1);
    EXPECT_EQ(kept.strategy_options.integer("passes"), 0);
    EXPECT_EQ(end.steps, 6);
  }
  EXPECT_TRUE(train(automatic("was_sync", {"strategy=sync"}), "", 2).stopped);
  const Recipe recipe = automatic("was_sync", {"strategy=auto"});
  train(recipe, "latest");
  if (first()) EXPECT_EQ(written(recipe).strategy, "sync");
}

TEST_F(AutomaticTest, ResumedItIsPlannedAnewWhereItCantHaveWhatItHad) {
  const Overrides all_in_one{"strategy=hybrid", "grid.partitions=" + std::to_string(ranks()),
                             "hybrid.scheme=a"};
  EXPECT_TRUE(train(automatic("passes", all_in_one), "", 2).stopped);
  const Recipe passes =
      automatic("passes", {"strategy=hybrid", "placement=auto", "hybrid.variable_batch=true"});
  EXPECT_EQ(train(passes, "latest").steps, 6);
  if (first()) EXPECT_NE(written(passes).strategy_options.text("scheme"), "a");
  if (ranks() == 1) return;
  EXPECT_TRUE(train(automatic("parts", all_in_one), "", 2).stopped);
  const Recipe parts = automatic(
      "parts",
      {"strategy=auto", R"(placement.layers=[{layers=["c.1"],how="partitioned",parts=[1]}])"});
  train(parts, "latest");
  if (first()) EXPECT_EQ(written(parts).strategy, "sync");
}

TEST_F(AutomaticTest, NothingIsMeasuredWhereThereIsNoChoice) {
  const Overrides watched{"task.name=watched"};
  const auto untried = [&](const std::string& name, const Overrides& how) {
    *tried_ = 0;
    const Recipe recipe = automatic(name, watched + how);
    train(recipe);
    EXPECT_LE(*tried_, 2) << name;
    return recipe;
  };
  const Recipe whole =
      untried("whole", {"strategy=auto", R"(placement.layers=[{how="replicated"}])"});
  const Recipe rows = untried("rows", {"strategy=auto", "task.options.rows=2"});
  const Recipe narrow =
      untried("narrow", {"strategy=hybrid", "placement=auto", "model.name=narrow"});
  if (ranks() > 1) {
    *tried_ = 0;
    train(automatic("a_choice", watched + Overrides{"strategy=auto"}));
    EXPECT_GT(*tried_, 2);
  }
  if (!first()) return;
  EXPECT_EQ(written(whole).strategy, "sync");
  EXPECT_EQ(written(rows).strategy, "sync") << "hybrid needs a row for each sample";
  EXPECT_EQ(written(narrow).strategy, "hybrid");
  EXPECT_EQ(written(narrow).grid.partitions, 1);
}

TEST_F(AutomaticTest, WhatIsWrongIsSaidBeforeAnythingIsMeasured) {
  const Overrides how{"strategy=auto", "task.name=watched"};
  const Recipe recipe = automatic("there", how);
  train(recipe);
  *tried_ = 0;
  EXPECT_NE(refusal(recipe).find("holds a run already"), std::string::npos);
  const std::string misspelt = test::message_of<UsageError>(
      [&] { automatic("best", how + Overrides{"checkpoint.best=tpo1"}); });
  EXPECT_NE(misspelt.find("did you mean top1?"), std::string::npos) << misspelt;
  EXPECT_EQ(*tried_, 0);
}

TEST_F(AutomaticTest, MemoryOfMeasuringIsGivenBack) {
  keep_large_blocks();
  release_large_blocks();
  placed(test_world(), registry_, automatic("planned", {"strategy=auto"}), "");
  EXPECT_EQ(large_block_stats().cached_bytes, 0u);
}

TEST_F(AutomaticTest, WhatIsChosenFitsIntoMemoryIfAnythingDoes) {
  std::vector<plan::StepForecast> forecasts(3);
  forecasts[0].step_s = 1;
  forecasts[0].memory_bytes = 300;
  forecasts[1].step_s = 2;
  forecasts[1].memory_bytes = 200;
  forecasts[2].step_s = 3;
  forecasts[2].memory_bytes = 100;
  EXPECT_EQ(best_within(forecasts, 0), 0u);
  EXPECT_EQ(best_within(forecasts, 300), 0u);
  EXPECT_EQ(best_within(forecasts, 299), 1u);
  EXPECT_EQ(best_within(forecasts, 99), 2u) << "that takes least";
}

TEST_F(AutomaticTest, RanksShareABatchOfTheDataThatThereIs) {
  const auto share = [&](const Overrides& how, int ranks) {
    const Recipe r = automatic("share", Overrides{"task.name=watched"} + how);
    const auto data = registry_.open_data(r.data.reader, r.data.train);
    return samples_per_rank(r, *registry_.make_task(r), *data, ranks);
  };
  EXPECT_EQ(share({}, 4), 3);
  EXPECT_EQ(share({}, 24), 1);
  EXPECT_EQ(share({"training.batch=1000000"}, 4), 15) << "of 61";
  // 2000 samples, of which the first half counts nothing: 50 each, in the mean.
  const Overrides counted{"data.train.size=2000", "task.options.cost=100", "training.batch=5000"};
  EXPECT_EQ(share(counted, 4), 25);
  EXPECT_EQ(share(counted + Overrides{"task.options.cost=0"}, 4), 500) << "all of them";
}

TEST_F(AutomaticTest, IsUsedAsTheWholeNetwork) {
  const Recipe recipe = automatic("used", {"strategy=sync"});
  train(recipe);
  Trained trained(test_world(), registry_,
                  find_trained(registry_, recipe.output.folder, Which::newest, {"strategy=auto"}));
  EXPECT_EQ(
      trained.evaluate(registry_.open_data(recipe.data.reader, recipe.data.validation)).samples,
      40u);
}

}  // namespace
}  // namespace convoy::train
