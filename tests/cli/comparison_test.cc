// The parts of `convoy bench downpour` that train nothing: what is compared, and what is taken from
// the folder.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tests/cli/comparison_fixture.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

TEST_F(ComparisonTest, EachMethodHasItsRuleRateAndStrategy) {
  words_.methods = "sgd,fixed,adagrad,sync";
  const Comparison comparison = make();
  ASSERT_EQ(names(comparison),
            (Words{"sgd-s1", "fixed-4-f1-p1-s1", "adagrad-4-f1-p1-s1", "sync-4-s1"}));
  const train::Recipe& sgd = comparison.arms[0].recipe;
  EXPECT_EQ(sgd.strategy, "sync");
  EXPECT_EQ(sgd.optimizer.name, "sgd");
  EXPECT_EQ(sgd.optimizer.lr, 0.05);
  EXPECT_EQ(sgd.optimizer.weight_decay, 1e-4);
  EXPECT_EQ(comparison.arms[0].processes, 1);
  const train::Recipe& fixed = comparison.arms[1].recipe;
  EXPECT_EQ(fixed.strategy, "downpour");
  EXPECT_EQ(fixed.optimizer.name, "sgd");
  EXPECT_EQ(fixed.optimizer.lr, 0.03);
  EXPECT_FALSE(fixed.optimizer.options.has("initial_accumulator"));
  EXPECT_EQ(fixed.optimizer.options.number("momentum"), 0);
  EXPECT_EQ(train::downpour_of(fixed).warm_steps, 50);
  const train::Recipe& adagrad = comparison.arms[2].recipe;
  EXPECT_EQ(adagrad.optimizer.name, "adagrad");
  EXPECT_EQ(adagrad.optimizer.lr, 0.01);
  EXPECT_EQ(adagrad.optimizer.options.number("initial_accumulator"), 0.1);
  EXPECT_EQ(comparison.arms[3].processes, 4);
  EXPECT_EQ(comparison.arms[3].recipe.training.batch, 32);
  EXPECT_EQ(comparison.arms[3].recipe.output.folder, scratch_.path("all") + "/sync-4-s1");
  ASSERT_EQ(comparison.notes.size(), 2u);
  EXPECT_TRUE(has(comparison.notes[0], "sync divides each mini-batch of 32 among its workers"));
}

TEST_F(ComparisonTest, ListsAreCombined) {
  words_.methods = "adagrad,sync";
  words_.replicas = "1,2,1";
  words_.exchange = "1,5:20";
  words_.seeds = 2;
  const Comparison comparison = make();
  ASSERT_EQ(names(comparison),
            (Words{"adagrad-1-f1-p1-s1", "adagrad-1-f1-p1-s2", "adagrad-1-f5-p20-s1",
                   "adagrad-1-f5-p20-s2", "adagrad-2-f1-p1-s1", "adagrad-2-f1-p1-s2",
                   "adagrad-2-f5-p20-s1", "adagrad-2-f5-p20-s2", "sync-1-s1", "sync-1-s2",
                   "sync-2-s1", "sync-2-s2"}));
  const train::DownpourRecipe downpour = train::downpour_of(comparison.arms[7].recipe);
  EXPECT_EQ(downpour.replicas, 2);
  EXPECT_EQ(downpour.n_fetch, 5);
  EXPECT_EQ(downpour.n_push, 20);
  EXPECT_EQ(comparison.arms[7].recipe.seed, 2);
  std::vector<const Arm*> all;
  for (const Arm& arm : comparison.arms) all.push_back(&arm);
  EXPECT_EQ(full_title(comparison.arms[7], all),
            "Downpour, Adagrad, 2 replicas, n_fetch 5, n_push 20, seed 2");
  EXPECT_EQ(full_title(comparison.arms[0], all),
            "Downpour, Adagrad, 1 replica, n_fetch = n_push = 1, seed 1");
  EXPECT_EQ(full_title(comparison.arms[0], {all[0]}), "Downpour, Adagrad, 1 replica");
}

TEST_F(ComparisonTest, AllBeginWithTheSameWeights) {
  words_.warm_steps = 30;
  Comparison comparison = make();
  ASSERT_TRUE(comparison.warm);
  EXPECT_EQ(comparison.warm->recipe.training.steps, 30);
  EXPECT_EQ(comparison.warm->recipe.training.epochs, 0);
  EXPECT_EQ(comparison.warm->recipe.optimizer.lr, 0.05);
  for (const Arm& arm : comparison.arms)
    EXPECT_EQ(arm.recipe.model.weights, warm_weights(comparison.folder));
  EXPECT_EQ(train::downpour_of(comparison.arms[1].recipe).warm_steps, 0);
  words_.overrides = {"downpour.warm_steps=7"};
  comparison = make();
  EXPECT_EQ(train::downpour_of(comparison.arms[1].recipe).warm_steps, 7);
  // Without the one worker among the methods, at the rate of what is there.
  words_.methods = "fixed";
  words_.rates = "fixed=0.02";
  comparison = make();
  EXPECT_EQ(comparison.warm->recipe.optimizer.lr, 0.02);
  EXPECT_EQ(comparison.warm->recipe.strategy, "sync");
}

TEST_F(ComparisonTest, PartitionsStayPartitions) {
  words_.methods = "sgd,sync";
  words_.overrides = {"grid.partitions=2"};
  const Comparison comparison = make();
  EXPECT_EQ(comparison.arms[0].recipe.strategy, "partitioned");
  EXPECT_EQ(comparison.arms[0].processes, 2);
  EXPECT_EQ(comparison.arms[1].processes, 8);
}

TEST_F(ComparisonTest, SaysWhatIsWrong) {
  const auto expect = [this](const std::string& complaint, const auto& change) {
    const ComparisonWords before = words_;
    change(words_);
    EXPECT_TRUE(has(problem(), complaint)) << problem();
    words_ = before;
  };
  expect(
      "--methods: there is no method 'adagrat'; there are sgd, fixed, adagrad, sandblaster, sync "
      "and gpu; did you mean adagrad?",
      [](auto& w) { w.methods = "sgd,adagrat"; });
  expect(
      "--lr: which rate for 'fixed'? The recipe's 0.01 is for adagrad; write for example --lr "
      "fixed=0.05",
      [](auto& w) { w.rates = "sgd=0.05"; });
  expect("--lr: '0.05' is no METHOD=RATE", [](auto& w) { w.rates = "0.05"; });
  expect("--lr: sgd is there twice", [](auto& w) { w.rates = "sgd=1,sgd=2"; });
  expect("--lr: 'x' is not a number above 0", [](auto& w) { w.rates = "sgd=x"; });
  expect("--replicas: '0' is not a whole number from 1", [](auto& w) { w.replicas = "1,0"; });
  expect("--replicas: there is an empty entry", [](auto& w) { w.replicas = "1,,2"; });
  expect("--exchange: '' is not a whole number", [](auto& w) { w.exchange = "5:"; });
  expect("--set optimizer.lr=1: --lr says the rate of each method",
         [](auto& w) { w.overrides = {"optimizer.lr=1"}; });
  expect("sync-64-s1: training.batch 32 is divided among the workers",
         [](auto& w) { w.methods = "sync", w.replicas = "64"; });
  expect("fixed-4-f3-p3-s1: ", [](auto& w) {
    w.overrides = {"downpour.staleness_bound=0", "downpour.warm_steps=0"};
    w.exchange = "3";
  });
  const std::string sync = train::replaced(kRecipe, "strategy = \"downpour\"", "");
  EXPECT_TRUE(has(problem(sync), "mine.toml")) << problem(sync);
  const std::string blind = train::replaced(kRecipe, "[data.validation]", "");
  EXPECT_TRUE(has(problem(blind), "has nothing to evaluate on")) << problem(blind);
}

TEST_F(ComparisonTest, WhatIsFinishedIsTakenFromTheFolder) {
  Comparison comparison = make();
  {
    ComparisonFolder folder(comparison.folder);
    EXPECT_THROW(ComparisonFolder other(comparison.folder), UsageError);
    EXPECT_EQ(to_train(comparison, folder, words_.overwrite).size(), 3u);
    leave(comparison, folder, comparison.arms[0]);
    leave(comparison, folder, comparison.arms[1], 0.5, 0.1, "failed");
    leave(comparison, folder, comparison.arms[2], 0.5, 0.1, "diverged");
    EXPECT_EQ(names(to_train(comparison, folder, words_.overwrite)), (Words{"fixed-4-f1-p1-s1"}));
  }
  // Of another process, with more to do.
  words_.seeds = 2;
  comparison = make();
  ComparisonFolder folder(comparison.folder);
  EXPECT_EQ(names(to_train(comparison, folder, words_.overwrite)),
            (Words{"sgd-s2", "fixed-4-f1-p1-s1", "fixed-4-f1-p1-s2", "adagrad-4-f1-p1-s2"}));
  folder.forget(comparison.arms[0].name);
  EXPECT_EQ(to_train(comparison, folder, words_.overwrite).size(), 5u);
  fs::remove_all(comparison.folder + "/adagrad-4-f1-p1-s1");
  EXPECT_EQ(to_train(comparison, folder, words_.overwrite).size(), 6u);
  // Somebody's own run is not taken for one of these.
  fs::create_directories(comparison.folder + "/sgd-s2");
  test::spill(comparison.folder + "/sgd-s2/recipe.toml", "name = \"mine\"\n");
  EXPECT_THROW(to_train(comparison, folder, words_.overwrite), UsageError);
}

TEST_F(ComparisonTest, OtherSettingsAreRefused) {
  words_.warm_steps = 30;
  Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  leave(comparison, folder, *comparison.warm);
  for (const Arm& arm : comparison.arms) leave(comparison, folder, arm);
  EXPECT_TRUE(to_train(comparison, folder, words_.overwrite).empty());
  words_.rates = "sgd=0.05,fixed=0.07";
  comparison = make();
  try {
    to_train(comparison, folder, words_.overwrite);
    ADD_FAILURE() << "nothing was said";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "in " + comparison.folder +
                  " there are runs with other settings:\n  fixed-4-f1-p1-s1: optimizer.lr was 0.03 "
                  "and is 0.07\n--overwrite trains these again; or name another --folder");
  }
  words_.overwrite = true;
  EXPECT_EQ(names(to_train(comparison, folder, words_.overwrite)), (Words{"fixed-4-f1-p1-s1"}));
  // Everything begins with the warm start.
  words_.warm_steps = 31;
  comparison = make();
  EXPECT_EQ(to_train(comparison, folder, words_.overwrite).size(), 4u);
  words_.warm_steps = 0;
  words_.overwrite = false;
  comparison = make();
  EXPECT_THROW(to_train(comparison, folder, words_.overwrite), UsageError);
}

// What began with other weights is not taken for finished, whoever made them anew.
TEST_F(ComparisonTest, AWarmStartThatIsGoneTakesTheRunsWithIt) {
  words_.warm_steps = 30;
  const Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  leave(comparison, folder, *comparison.warm);
  for (const Arm& arm : comparison.arms) leave(comparison, folder, arm);
  EXPECT_TRUE(to_train(comparison, folder, false).empty());
  fs::remove_all(comparison.folder + "/warm-start");
  try {
    to_train(comparison, folder, false);
    ADD_FAILURE() << "nothing was said";
  } catch (const UsageError& error) {
    EXPECT_TRUE(has(error.what(), "warm-start, which they began with, is not there any more"))
        << error.what();
  }
  EXPECT_EQ(to_train(comparison, folder, true).size(), 4u);
  // Trained for some of the methods: the others' rows are of the one before, too.
  folder.forget_all();
  leave(comparison, folder, *comparison.warm);
  EXPECT_EQ(to_train(comparison, folder, false).size(), 3u);
  // A first one that was broken off is trained without a word.
  folder.forget_all();
  EXPECT_EQ(to_train(comparison, folder, false).size(), 4u);
}

TEST_F(ComparisonTest, OtherWeightsAreOtherSettings) {
  for (const char* other : {"a", "b"}) {
    fs::create_directories(scratch_.path(other));
    test::spill(scratch_.path(other) + "/warm-start.safetensors", "");
  }
  words_.overrides = {"model.weights=" + scratch_.path("a") + "/warm-start.safetensors"};
  Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  for (const Arm& arm : comparison.arms) leave(comparison, folder, arm);
  EXPECT_TRUE(to_train(comparison, folder, false).empty());
  words_.overrides = {"model.weights=" + scratch_.path("b") + "/warm-start.safetensors"};
  EXPECT_THROW(to_train(make(), folder, false), UsageError);
}

// The row of a GPU is there where there is one, and said to be left out where there is none.
TEST_F(ComparisonTest, AGpuIsForMachinesThatHaveOne) {
  const Comparison without = make();
  EXPECT_EQ(names(without), (Words{"sgd-s1", "fixed-4-f1-p1-s1", "adagrad-4-f1-p1-s1"}));
  ASSERT_FALSE(without.notes.empty());
  EXPECT_EQ(without.notes[0], "gpu is left out: LibTorch has no GPU on this machine");
  const auto with_one = [this] {
    return make_comparison({kRecipe, "mine.toml", "/"}, words_, vocabulary(), true);
  };
  const Comparison with = with_one();
  ASSERT_EQ(names(with), (Words{"sgd-s1", "fixed-4-f1-p1-s1", "adagrad-4-f1-p1-s1", "gpu-s1"}));
  EXPECT_EQ(with.arms[3].recipe.device, "cuda");
  EXPECT_EQ(with.arms[3].recipe.strategy, "sync");
  EXPECT_EQ(with.arms[3].recipe.optimizer.lr, 0.05);
  EXPECT_EQ(with.arms[3].processes, 1);
  words_.methods = "gpu";
  EXPECT_EQ(problem(),
            "--methods: gpu is left out: LibTorch has no GPU on this "
            "machine");
  words_.methods = "sgd,gpu";
  words_.overrides = {"device=cuda"};
  const Comparison all = with_one();
  EXPECT_EQ(names(all), Words{"sgd-s1"});
  EXPECT_TRUE(has(all.notes[0], "that is what sgd is")) << all.notes[0];
}

// A strategy that has servers, as Downpour has, and nothing else of it.
train::Vocabulary with_sandblaster() {
  train::Vocabulary v = vocabulary();
  v.strategies["sandblaster"] = {{"replicas", std::int64_t{2}, "doc"},
                                 {"shards", std::int64_t{1}, "doc"},
                                 {"history", std::int64_t{10}, "doc"},
                                 {"l2", 0.0, "doc"}};
  v.strategy_checks["sandblaster"] = [](const train::Recipe& recipe, auto& problems) {
    const train::OptimizerRecipe& o = recipe.optimizer;
    if (o.lr != train::OptimizerRecipe().lr || o.weight_decay != 0 || o.name != "sgd")
      problems.emplace_back("leave [optimizer] out");
    if (recipe.schedule.name != "constant") problems.emplace_back("leave [schedule] out");
    if (recipe.data.drop_last) problems.emplace_back("data.drop_last is true");
  };
  return v;
}

TEST_F(ComparisonTest, SandblasterHasWhatItTakesOfTheRecipe) {
  words_.methods = "sgd,sandblaster";
  words_.replicas = "1,4";
  words_.iterations = 7;
  words_.warm_steps = 5;
  words_.overrides = {"evaluation.every_steps=100", "training.clip_norm=1", "schedule.name=cosine"};
  const auto compare = [this](const std::string& more = "") {
    return make_comparison({std::string(kRecipe) + more, "mine.toml", "/"}, words_,
                           with_sandblaster());
  };
  const Comparison comparison = compare();
  ASSERT_EQ(names(comparison), (Words{"sgd-s1", "sandblaster-1-s1", "sandblaster-4-s1"}));
  const train::Recipe& recipe = comparison.arms[2].recipe;
  EXPECT_EQ(recipe.strategy, "sandblaster");
  EXPECT_EQ(recipe.strategy_options.integer("replicas"), 4);
  EXPECT_EQ(recipe.strategy_options.integer("shards"), 2);
  EXPECT_EQ(recipe.strategy_options.integer("history"), 10);
  EXPECT_EQ(recipe.strategy_options.number("l2"), 1e-4);
  EXPECT_EQ(recipe.training.steps, 7);
  EXPECT_EQ(recipe.training.epochs, 0);
  EXPECT_EQ(recipe.training.clip_norm, 0);
  EXPECT_EQ(recipe.evaluation.every_steps, 1);
  EXPECT_EQ(recipe.evaluation.training_fraction, 0.1);
  EXPECT_EQ(recipe.model.weights, warm_weights(comparison.folder));
  EXPECT_EQ(comparison.arms[0].recipe.training.clip_norm, 1);
  EXPECT_EQ(comparison.arms[2].processes, 4);
  EXPECT_TRUE(row_of(comparison.arms[2], RunEnd{})["learning_rate"].is_null());
  std::vector<const Arm*> all;
  for (const Arm& arm : comparison.arms) all.push_back(&arm);
  EXPECT_EQ(full_title(comparison.arms[2], all), "Sandblaster, 4 replicas");
  const Comparison own = compare("[sandblaster]\nshards = 5\nhistory = 3\nl2 = 0.5\n");
  EXPECT_EQ(own.arms[2].recipe.strategy_options.integer("shards"), 5);
  EXPECT_EQ(own.arms[2].recipe.strategy_options.integer("history"), 3);
  EXPECT_EQ(own.arms[2].recipe.strategy_options.number("l2"), 0.5);
  // What it can't do is said, and a program without it leaves it out.
  words_.overrides = {"data.drop_last=true"};
  EXPECT_TRUE(has(test::message_of<UsageError>(compare), "data.drop_last is true"));
  words_.overrides = {};
  const Comparison without = make();
  EXPECT_EQ(names(without), Words{"sgd-s1"});
  EXPECT_EQ(without.notes[0], "sandblaster is left out: this program has no such strategy");
  words_.rates = "sgd=1,sandblaster=1";
  EXPECT_TRUE(has(problem(), "--lr: sandblaster has no rate")) << problem();
}

TEST_F(ComparisonTest, EvaluationsAreOfTrainingDataAsWell) {
  for (const Arm& arm : make().arms) EXPECT_EQ(arm.recipe.evaluation.training_fraction, 0.1);
  EXPECT_TRUE(has(make().notes.back(), "also of a part of the training data, 0.1 of it"));
  words_.overrides = {"evaluation.training_fraction=0"};
  for (const Arm& arm : make().arms) EXPECT_EQ(arm.recipe.evaluation.training_fraction, 0);
  words_.overrides = {"evaluation.from=training"};
  for (const Arm& arm : make().arms) EXPECT_EQ(arm.recipe.evaluation.training_fraction, 0);
}

// Its milestones and its end are those of the whole training.
TEST_F(ComparisonTest, TheWarmStartHasNoSchedule) {
  words_.warm_steps = 5;
  words_.methods = "adagrad";
  const std::string recipe =
      std::string(kRecipe) + "[schedule]\nname = \"step\"\nunit = \"steps\"\nmilestones = [1000]\n";
  const std::string longer = train::replaced(recipe, "epochs = 3", "steps = 2000");
  const Comparison comparison = make(longer);
  EXPECT_EQ(comparison.warm->recipe.schedule.name, "constant");
  EXPECT_EQ(comparison.arms[0].recipe.schedule.name, "step");
  words_.rates = "";
  EXPECT_TRUE(has(problem(longer), "--lr: which rate for the warm start?")) << problem(longer);
}

TEST_F(ComparisonTest, SeedsAndProcessesHaveLimits) {
  words_.methods = "adagrad";
  words_.overrides = {"seed=-1"};
  words_.seeds = 2;
  EXPECT_EQ(names(make()), (Words{"adagrad-4-f1-p1-s-1", "adagrad-4-f1-p1-s0"}));
  words_.overrides = {"seed=9223372036854775807"};
  EXPECT_TRUE(has(problem(), "--seeds: there are not so many behind seed")) << problem();
  words_.overrides = {"seed=9223372036854775805"};
  EXPECT_EQ(make().arms.size(), 2u);
  words_.overrides = {"grid.partitions=1000"};
  words_.replicas = "100";
  EXPECT_TRUE(has(problem(), "--replicas: 100 of 1000 partitions are more than 65536 processes"))
      << problem();
}

TEST_F(ComparisonTest, TablesAreSettingsToo) {
  words_.warm_steps = 30;
  words_.overrides = {"downpour={replicas=3}"};
  EXPECT_TRUE(has(problem(), "--replicas says how many")) << problem();
  words_.overrides = {"downpour={warm_steps=7}"};
  EXPECT_EQ(train::downpour_of(make().arms[1].recipe).warm_steps, 7);
}

TEST_F(ComparisonTest, TheRecipesHostsAreThoseOfTheRuns) {
  EXPECT_EQ(make().hosts, "");
  words_.overrides = {"downpour.hosts=[\"a\", \"b\"]"};
  EXPECT_EQ(make().hosts, "a,b");
  words_.hosts = "c";
  EXPECT_EQ(make().hosts, "c");
}

}  // namespace
}  // namespace convoy::cli
