// What a recipe says of Sandblaster, and the plan that follows.
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/train/sandblaster.h"
#include "train/recipe/automatic.h"
#include "train/recipe/former.h"
#include "train/strategies/sandblaster/options.h"

namespace convoy::train {
namespace {

Vocabulary batch_words() {
  Vocabulary v;
  v.models["net"] = {};
  v.readers["reader"] = {};
  v.tasks["classification"] = {};
  v.strategies["sync"] = {{"allow_unused", false, "doc"}};
  v.strategies["partitioned"] = {{"images", std::string("rows"), "doc"}};
  v.strategies["sandblaster"] = sandblaster_keys();
  v.strategy_checks["sandblaster"] = check_sandblaster;
  return v;
}

Recipe batch_recipe(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), "strategy=sandblaster");
  return parse_recipe({"[model]\nname = \"net\"\n[data]\nreader = \"reader\"\n[data.train]\n"
                       "[training]\nbatch = 32\nsteps = 30\n",
                       "job.toml", "/"},
                      overrides, batch_words());
}

std::string batch_problems(const std::vector<std::string>& overrides) {
  try {
    batch_recipe(overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SandblasterRecipe, Plan) {
  const Recipe recipe = batch_recipe({"sandblaster.shards=3", "sandblaster.lease_s=0.5"});
  const server::JobPlan plan = batch_plan(recipe);
  EXPECT_EQ(plan.shards, 3u);
  EXPECT_EQ(plan.servers, 3u);
  EXPECT_TRUE(plan.backups);
  EXPECT_EQ(plan.replicas, 2u);
  EXPECT_EQ(plan.portion, 32u);
  EXPECT_EQ(plan.client_lease_ms, 500u);
  EXPECT_EQ(batch_iterations(recipe), 30);
  EXPECT_EQ(batch_plan(batch_recipe({"sandblaster.portion=50"})).portion, 50u);
  EXPECT_EQ(batch_iterations(batch_recipe({"training.epochs=7"})), 7);
  // It is read back to the same.
  const Recipe again = parse_recipe({plan.recipe, "x", "/"}, {}, batch_words());
  EXPECT_EQ(print_recipe(again, false), plan.recipe);
}

TEST(SandblasterRecipe, Method) {
  optim::BatchOptions options = batch_options(batch_recipe({}));
  EXPECT_EQ(options.method, optim::BatchMethod::lbfgs);
  EXPECT_EQ(options.history, 10);
  EXPECT_EQ(options.line_search.loss_error, 1e-6);
  options = batch_options(batch_recipe(
      {"precision=float64", "sandblaster.method=conjugate_gradient", "sandblaster.history=4",
       "sandblaster.damping=0.2", "sandblaster.gradient_norm=0.5", "sandblaster.progress=0.01",
       "sandblaster.patience=7", "sandblaster.decrease=0.01", "sandblaster.curvature=0.4",
       "sandblaster.search_evaluations=9"}));
  EXPECT_EQ(options.method, optim::BatchMethod::conjugate_gradient);
  EXPECT_EQ(options.history, 4);
  EXPECT_EQ(options.damping, 0.2);
  EXPECT_EQ(options.gradient_norm, 0.5);
  EXPECT_EQ(options.progress, 0.01);
  EXPECT_EQ(options.patience, 7);
  EXPECT_EQ(options.line_search.decrease, 0.01);
  EXPECT_EQ(options.line_search.curvature, 0.4);
  EXPECT_EQ(options.line_search.evaluations, 9);
  EXPECT_EQ(options.line_search.loss_error, 1e-14);
  EXPECT_EQ(batch_element(batch_recipe({"precision=float64"})), server::Element::f64);
  EXPECT_EQ(batch_options(batch_recipe({"sandblaster.method=gradient_descent"})).method,
            optim::BatchMethod::gradient_descent);
  EXPECT_EQ(batch_options(batch_recipe({"sandblaster.loss_error=0.5"})).line_search.loss_error,
            0.5);
  for (const auto& [group, level] : {std::pair{1, 0}, {4, 2}, {16, 4}, {256, 8}}) {
    EXPECT_EQ(
        largest_group_level(batch_recipe({"sandblaster.largest_group=" + std::to_string(group)})),
        level);
  }
}

// Every recipe that is accepted is a method that is.
TEST(SandblasterRecipe, WhatIsAcceptedIsValid) {
  for (const char* one : {"history=1", "history=992", "damping=0.99", "progress=0.5",
                          "loss_error=0.9", "curvature=0.0002", "decrease=0.49", "patience=1"}) {
    EXPECT_NO_THROW(
        optim::validate(batch_options(batch_recipe({"sandblaster." + std::string(one)}))))
        << one;
  }
}

TEST(SandblasterRecipe, MemoryIsThatOfVectorsAndSums) {
  const Recipe recipe = batch_recipe({"precision=float64", "sandblaster.history=5"});
  const BatchBytes bytes = batch_bytes(recipe, 1000, 64 * 32);
  EXPECT_EQ(bytes.vector, 8000u);
  EXPECT_EQ(bytes.vectors, 2u * 5 + 12);
  EXPECT_EQ(bytes.held, 2u * 5 + 2);
  EXPECT_EQ(bytes.sums, 2u * 7 + 3);
  EXPECT_EQ(bytes.copies, 2u);
  EXPECT_EQ(bytes.messages, 2u + 3);
  EXPECT_EQ(bytes.servers, 2u);
  EXPECT_EQ(bytes.process, 24u << 20);
  EXPECT_EQ(bytes.all(), 8000u * (44 + 12) * 2 + (48u << 20));
  EXPECT_EQ(batch_bytes(batch_recipe({"sandblaster.backups=false"}), 1000, 32).all(),
            4000u * (32 + 22 + 4 + 5) + (24u << 20));
  // The last commands stay in memory where there is no log.
  EXPECT_EQ(batch_bytes(batch_recipe({"sandblaster.durability=none"}), 1000, 32).process,
            88u << 20);
  const std::string text = describe(bytes, recipe, 1000);
  EXPECT_NE(text.find("22 vectors of 1000 parameters"), std::string::npos) << text;
  EXPECT_NE(text.find("12 that the evaluator holds"), std::string::npos) << text;
  // Pairs whose curvature is damped need one more at a time; methods without history have none.
  EXPECT_EQ(batch_bytes(batch_recipe({"sandblaster.damping=0.2"}), 1000, 32).vectors, 33u);
  const BatchBytes descent =
      batch_bytes(batch_recipe({"sandblaster.method=gradient_descent"}), 1000, 32);
  EXPECT_EQ(descent.vectors, 10u);
  EXPECT_EQ(descent.held, 2u);
}

TEST(SandblasterRecipe, ReplicasHaveAStrategyOfTheirOwn) {
  const Recipe own =
      replica_recipe(batch_recipe({"grid.partitions=2", "partitioned.images=tiles"}));
  EXPECT_EQ(own.strategy, "partitioned");
  EXPECT_EQ(own.strategy_options.text("images"), "tiles");
  // What a portion doesn't use has no gradient.
  EXPECT_TRUE(replica_recipe(batch_recipe({})).strategy_options.flag("allow_unused"));
  // What was trained is whole on one rank.
  const Recipe whole = on_one_rank(batch_recipe({"grid.partitions=2"}), batch_words());
  EXPECT_EQ(whole.strategy, "sync");
  EXPECT_EQ(whole.grid.partitions, 1);
}

TEST(SandblasterRecipe, MistakesAreSaid) {
  const auto expect = [](const std::vector<std::string>& overrides, const std::string& part) {
    EXPECT_NE(batch_problems(overrides).find(part), std::string::npos) << batch_problems(overrides);
  };
  expect({"sandblaster.method=bfgs"}, "did you mean lbfgs?");
  expect({"sandblaster.history=0"}, "sandblaster.history is 0; it has to be 1 to 992");
  for (const std::string history : {"993", "1000"}) {
    expect({"sandblaster.history=" + history},
           "sandblaster.history is " + history +
               "; it has to be 1 to 992 (what is known of more steps fits into no message to the "
               "coordinator; a run that was begun with more goes on with --set "
               "sandblaster.history=992)");
  }
  expect({"sandblaster.history=1001"}, "sandblaster.history is 1001; it has to be 1 to 992");
  EXPECT_EQ(batch_problems({"sandblaster.history=1001"}).find("was begun"), std::string::npos);
  EXPECT_EQ(batch_problems({"sandblaster.history=992"}), "");
  expect({"sandblaster.largest_group=3"}, "it has to be 1, 2, 4,");
  expect({"sandblaster.largest_group=512"}, "sandblaster.largest_group is 512");
  expect({"sandblaster.portion=-1"}, "sandblaster.portion is -1");
  expect({"sandblaster.l2=-0.1"}, "sandblaster.l2 is -0.1; it can't be negative");
  expect({"sandblaster.gradient_norm=nan"}, "sandblaster.gradient_norm is nan");
  expect({"sandblaster.decrease=0.5"}, "sandblaster.decrease is 0.5; it has to be above 0");
  expect({"sandblaster.curvature=1e-5"}, "above sandblaster.decrease, which is 1e-04");
  expect({"sandblaster.damping=1"}, "sandblaster.damping is 1");
  expect({"sandblaster.patience=0"}, "sandblaster.patience is 0");
  expect({"sandblaster.replicas=0"}, "sandblaster.replicas is 0; it has to be 1 to");
  expect({"sandblaster.shards=3", "sandblaster.servers=2"}, "need 3 at least");
  expect({"grid.replicas=2"}, "sandblaster.replicas says how many");
  expect({"precision=bfloat16"}, "a line search compares losses");
  expect({"data.drop_last=true"}, "every evaluation is of all samples");
  expect({"training.clip_norm=1"}, "training.clip_norm is 1");
  expect({"schedule.warmup=1"}, "there is no learning rate; leave [schedule] out");
}

// Histories of 993 to 1000 were taken once: what such a run has done can be gone on from, and used.
TEST(SandblasterRecipe, ALongerHistoryOfBeforeCanBeRead) {
  const auto text = [](const std::string& history) {
    return "strategy = \"sandblaster\"\n[model]\nname = \"net\"\n[data]\nreader = \"reader\"\n"
           "[data.train]\n[training]\nbatch = 32\nsteps = 30\n[sandblaster]\nhistory = " +
           history + "\n";
  };
  const auto read = [&](const std::string& history) {
    return sandblaster_of(parse_recipe({of_today(text(history)), "the checkpoint's recipe", "/"},
                                       {}, batch_words(), Files::may_be_missing))
        .history;
  };
  EXPECT_EQ(read("993"), 992);
  EXPECT_EQ(read("1000"), 992);
  EXPECT_EQ(read("12"), 12);
  EXPECT_EQ(of_today(text("992")), text("992"));
  EXPECT_EQ(of_today(text("1001")), text("1001"));
}

TEST(SandblasterRecipe, AnOptimizerIsRefused) {
  const std::string lr = batch_problems({"optimizer.lr=0.05", "optimizer.momentum=0.9"});
  EXPECT_NE(
      lr.find("optimizer.lr, momentum: with sandblaster the method (sandblaster.method) makes "
              "the updates"),
      std::string::npos)
      << lr;
  EXPECT_EQ(lr.find("l2"), std::string::npos) << lr;
  const std::string decay = batch_problems({"optimizer.weight_decay=0.1"});
  EXPECT_NE(decay.find("sandblaster.l2 keeps weights small"), std::string::npos) << decay;
  for (const char* name : {"lars", "lamb"}) {
    const std::string layerwise =
        batch_problems({std::string("optimizer.name=") + name, "optimizer.trust_min_dims=0"});
    EXPECT_NE(layerwise.find("optimizer.name, trust_min_dims: with sandblaster the method"),
              std::string::npos)
        << layerwise;
  }
  EXPECT_EQ(batch_problems({}), "");
  // All mistakes are said at once.
  const std::string all = batch_problems({"optimizer.lr=0.05", "sandblaster.history=0"});
  EXPECT_NE(all.find("optimizer.lr"), std::string::npos);
  EXPECT_NE(all.find("sandblaster.history"), std::string::npos);
}

}  // namespace
}  // namespace convoy::train
