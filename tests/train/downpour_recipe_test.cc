// What a recipe says of Downpour, and the plan that follows.
#include <gtest/gtest.h>

#include <limits>

#include "convoy/base/error.h"
#include "convoy/train/downpour.h"
#include "tests/base/scratch.h"
#include "train/strategies/downpour/options.h"

namespace convoy::train {
namespace {

Vocabulary words() {
  Vocabulary v;
  v.models["net"] = {};
  v.readers["reader"] = {};
  v.tasks["classification"] = {};
  v.strategies["sync"] = {{"bucket", std::string("8MiB"), "doc"}};
  v.strategies["partitioned"] = {{"images", std::string("rows"), "doc"}};
  v.strategies["downpour"] = downpour_keys();
  v.strategy_checks["downpour"] = check_downpour;
  return v;
}

Recipe recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(
      {"[model]\nname = \"net\"\n[data]\nreader = \"reader\"\n[data.train]\n"
       "[training]\nbatch = 32\nepochs = 3\n",
       "job.toml", "/"},
      [&] {
        std::vector<std::string> all{"strategy=downpour"};
        all.insert(all.end(), overrides.begin(), overrides.end());
        return all;
      }(),
      words());
}

std::string problems(const std::vector<std::string>& overrides) {
  try {
    recipe(overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(DownpourRecipe, Plan) {
  const server::JobPlan plan = job_plan(recipe({}));
  EXPECT_EQ(plan.name, "job");
  EXPECT_EQ(plan.shards, 1u);
  EXPECT_EQ(plan.servers, 2u);
  EXPECT_TRUE(plan.backups);
  EXPECT_TRUE(plan.log);
  EXPECT_FALSE(plan.synced);
  EXPECT_EQ(plan.staleness_bound, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(plan.replicas, 2u);
  EXPECT_EQ(plan.batch, 32u);
  EXPECT_EQ(plan.portion, 32u * 16);
  EXPECT_EQ(plan.epochs, 3u);
  EXPECT_EQ(plan.samples, 0u);
  EXPECT_EQ(plan.client_lease_ms, 3000u);
  // It is read back to the same.
  const Recipe again = parse_recipe({plan.recipe, "x", "/"}, {}, words());
  EXPECT_EQ(print_recipe(again, false), plan.recipe);
}

TEST(DownpourRecipe, Values) {
  const server::JobPlan plan = job_plan(
      recipe({"downpour.shards=3", "downpour.backups=false", "downpour.durability=synced",
              "downpour.n_push=5", "downpour.staleness_bound=7", "downpour.scale_by_staleness=true",
              "downpour.warm_steps=10", "downpour.warm_seconds=1.5", "downpour.lease_s=0.5",
              "training.steps=100", "data.drop_last=true"}));
  EXPECT_EQ(plan.servers, 3u);
  EXPECT_TRUE(plan.synced);
  EXPECT_EQ(plan.staleness_bound, 7u);
  EXPECT_TRUE(plan.scale_by_staleness);
  EXPECT_EQ(plan.portion, 32u * 20);  // whole pushes
  EXPECT_EQ(plan.warm_samples, 320u);
  EXPECT_EQ(plan.warm_seconds, 1.5);
  EXPECT_EQ(plan.client_lease_ms, 500u);
  EXPECT_EQ(plan.samples, 3200u);
  EXPECT_EQ(plan.epochs, 0u);
  EXPECT_TRUE(plan.drop_last);
  EXPECT_FALSE(job_plan(recipe({"downpour.durability=none"})).log);
}

TEST(DownpourRecipe, RoundsShareABatch) {
  const Recipe r = recipe({"downpour.replicas=4", "downpour.staleness_bound=0"});
  const server::JobPlan plan = job_plan(r);
  EXPECT_EQ(plan.batch, 8u);
  EXPECT_EQ(plan.portion, 8u);
  EXPECT_EQ(replica_recipe(r).training.batch, 8);
}

TEST(DownpourRecipe, GoesOnFromACheckpoint) {
  Manifest manifest;
  manifest.samples = 1000;
  manifest.step = 40;
  manifest.position = {1, 0, {{0, 64}, {96, 128}}};
  const server::JobPlan plan = job_plan(recipe({"training.steps=100"}), &manifest);
  EXPECT_EQ(plan.first_epoch, 1u);
  EXPECT_EQ(plan.consumed,
            (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 64}, {96, 128}}));
  EXPECT_EQ(plan.samples, 1000u + 96 + 60 * 32);
  manifest.position.members = 2;
  EXPECT_THROW(job_plan(recipe({}), &manifest), UsageError);
}

TEST(DownpourRecipe, ReplicasHaveAStrategyOfTheirOwn) {
  const Recipe r = recipe({"grid.partitions=2", "partitioned.images=tiles", "sync.bucket=1MiB"});
  const Recipe own = replica_recipe(r);
  EXPECT_EQ(own.strategy, "partitioned");
  EXPECT_EQ(own.strategy_options.text("images"), "tiles");
  EXPECT_EQ(replica_recipe(recipe({"sync.bucket=1MiB"})).strategy_options.text("bucket"), "1MiB");
}

TEST(DownpourRecipe, MistakesAreSaid) {
  const auto expect = [](const std::vector<std::string>& overrides, const std::string& part) {
    EXPECT_NE(problems(overrides).find(part), std::string::npos) << problems(overrides);
  };
  expect({"downpour.replicas=0"}, "downpour.replicas is 0; it has to be 1 to");
  expect({"downpour.shards=3", "downpour.servers=2"}, "need 3 at least");
  expect({"downpour.durability=replicate"}, "did you mean replicated?");
  expect({"downpour.local_steps=no"}, "again or drop");
  expect({"downpour.push_wire=int8"}, "float32, bfloat16 or float16");
  expect({"downpour.portion=33"}, "a multiple of training.batch, which is 32");
  expect({"downpour.staleness_bound=-2"}, "downpour.staleness_bound is -2");
  expect({"downpour.staleness_bound=0", "downpour.n_push=2"}, "both are 1");
  expect({"downpour.staleness_bound=0", "downpour.replicas=3"}, "a multiple of downpour.replicas");
  expect({"downpour.staleness_bound=0", "downpour.warm_steps=3"}, "wait for each other");
  expect({"precision=float64"}, "float32");
  for (const char* name : {"lars", "lamb"}) {
    expect({std::string("optimizer.name=") + name},
           "optimizer.name is '" + std::string(name) +
               "', which goes by norms of whole parameters; with downpour servers apply the rule, "
               "which have slices of them; it can be sgd, sgd_velocity, adam, adamw or adagrad");
  }
  expect({"grid.replicas=2"}, "downpour.replicas says how many");
  expect({"downpour.local_lr=-1"}, "local_lr can't be negative");
  expect({"downpour.lease_s=0"}, "lease_s has to be 0.1 to 3600");
  expect({"downpour.wire=\"x\""}, "there is no such key");
}

// An optimizer of a plugin's whose rule is one of Convoy's, if the plugin says that servers may.
TEST(DownpourRecipe, ServersTakeRulesOfPlugins) {
  for (const bool on_servers : {true, false}) {
    Vocabulary all = words();
    OptimizerKind kind;
    kind.name = "mine";
    kind.options = {{"mass", 0.9, "doc"}};
    kind.rule = [](const OptimizerRequest& r) -> optim::Rule {
      return optim::Sgd{.momentum = r.options.number("mass")};
    };
    kind.on_servers = on_servers;
    all.optimizers.add(kind);
    const auto read = [&all] {
      return parse_recipe({"[model]\nname = \"net\"\n[data]\nreader = \"reader\"\n[data.train]\n"
                           "[optimizer]\nname = \"mine\"\nlr = 0.5\nmass = 0.75\n"
                           "[training]\nbatch = 32\nepochs = 3\n",
                           "job.toml", "/"},
                          {"strategy=downpour"}, all);
    };
    if (!on_servers) {
      EXPECT_NE(test::message_of<UsageError>(read).find(
                    "optimizer.name is 'mine', whose plugin doesn't let servers apply it"),
                std::string::npos);
      continue;
    }
    const optim::Rule rule = parameter_rule(read().optimizer, "fc.weight", 2);
    EXPECT_EQ(std::get<optim::Sgd>(rule), (optim::Sgd{.lr = 0.5, .momentum = 0.75}));
  }
  EXPECT_THROW(parameter_rule({.name = "lars"}, "fc.weight", 2), UsageError);
}

TEST(DownpourRecipe, RulesOfGroups) {
  OptimizerRecipe optimizer;
  optimizer.name = "adagrad";
  optimizer.lr = 0.5;
  optimizer.weight_decay = 0.25;
  optimizer.groups = {{.parameters = {"*.bias"}, .lr_scale = 2, .weight_decay = 0},
                      {.parameters = {}, .max_dims = 1, .lr_scale = 4}};
  const auto rule = [&](const std::string& name, std::int64_t dimensions) {
    return std::get<optim::Adagrad>(parameter_rule(optimizer, name, dimensions));
  };
  EXPECT_EQ(rule("fc.weight", 2).lr, 0.5);
  EXPECT_EQ(rule("fc.bias", 1).lr, 1);
  EXPECT_EQ(rule("fc.bias", 1).weight_decay, 0);
  EXPECT_EQ(rule("bn.weight", 1).lr, 2);
  EXPECT_EQ(rule("bn.weight", 1).weight_decay, 0.25);
}

}  // namespace
}  // namespace convoy::train
