// What a plan says, as `convoy train --plan` reads and compares it.
#include "cli/plan/plan_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/plan/plan_recipe.h"
#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

TEST(PlanFile, ReadsBackWhatWasWritten) {
  const test::Scratch scratch;
  const std::string path = scratch.path() + "/plan.toml";
  const auto write = [&path](const std::string& text) { std::ofstream(path) << text; };
  const PlanFile plan{"a \"b\"", "loss", 0.1, {{1, 64, 0.02, 12.5}, {4, 256, 1e-5, 1.0 / 3, 0.05}}};
  write(to_toml(plan));
  const PlanFile back = read_plan_file(path);
  EXPECT_EQ(back.recipe, plan.recipe);
  EXPECT_EQ(back.target, 0.1);
  EXPECT_EQ(workers_of(back, 4).batch, 256);
  EXPECT_EQ(workers_of(back, 4).seconds, 1.0 / 3);
  EXPECT_EQ(overrides_of(workers_of(back, 1)),
            (std::vector<std::string>{"training.batch=64", "optimizer.lr=0.02"}));
  EXPECT_EQ(test::message_of<UsageError>([&] { workers_of(back, 2); }),
            "the plan says nothing of 2 workers; it does of 1, 4 (convoy plan batch --workers)");
  const auto refused = [&](const std::string& text) {
    write(text);
    return test::message_of<UsageError>([&] { read_plan_file(path); });
  };
  EXPECT_NE(refused("x = ").find(":1: "), std::string::npos);
  EXPECT_NE(refused("metric = \"loss\"").find("recipe is missing"), std::string::npos);
  EXPECT_FALSE(back.measured);  // as in files of before
  EXPECT_EQ(workers_of(back, 1).contention, 0);
  EXPECT_EQ(workers_of(back, 4).contention, 0.05);
  std::string wrong = to_toml(plan);
  wrong.replace(wrong.find("batch = 64"), 10, "batch = -1");
  EXPECT_NE(refused(wrong).find("batch has to be a whole number from 1 on"), std::string::npos);
}

// Version 1 had neither a version nor contention.
TEST(PlanFile, OfBeforeIsReadAndOneOfALaterVersionIsNot) {
  const test::Scratch scratch;
  const std::string path = scratch.path() + "/plan.toml";
  const std::string old =
      "recipe = \"a\"\nmetric = \"loss\"\ntarget = 0.1\n\n[[workers]]\ncount = 2\nbatch = 128\n"
      "learning_rate = 0.04\nseconds = 12.5\n";
  test::spill(path, old);
  const PlanFile plan = read_plan_file(path);
  EXPECT_EQ(workers_of(plan, 2).batch, 128);
  EXPECT_EQ(workers_of(plan, 2).contention, 0);
  EXPECT_NE(to_toml(plan).find("version = 2\n"), std::string::npos);
  EXPECT_EQ(to_toml(plan).find("contention"), std::string::npos);
  const auto refused = [&](const std::string& text) {
    test::spill(path, text);
    return test::message_of<UsageError>([&] { read_plan_file(path); });
  };
  EXPECT_EQ(
      refused("version = 3\n" + old),
      path + ": version is 3, and this Convoy reads 1 to 2; train with the Convoy that planned");
  EXPECT_NE(refused(old + "contention = -0.1\n").find("contention has to be a number of 0 or more"),
            std::string::npos);
}

TEST(PlanFile, SaysWhatItWasMeasuredWith) {
  const test::Scratch scratch;
  const std::string path = scratch.path() + "/plan.toml";
  PlanFile plan{"a", "loss", 0.1, {{1, 64, 0.02, 12.5}, {4, 256, 0.04, 3}}};
  plan.measured = {"a \"processor\", 4 cores",
                   2,
                   400,
                   {"optimizer.name=adam", "optimizer.lr=1"},
                   "name = \"plan\"\n\n[optimizer]\nname = \"adam\"\n"};
  test::spill(path, to_toml(plan));
  const PlanFile back = read_plan_file(path);
  ASSERT_TRUE(back.measured);
  EXPECT_EQ(back.measured->machine, plan.measured->machine);
  EXPECT_EQ(back.measured->threads, 2);
  EXPECT_EQ(back.measured->samples, 400);
  EXPECT_EQ(back.measured->overrides, plan.measured->overrides);
  EXPECT_EQ(back.measured->recipe, plan.measured->recipe);
  // The rate is the plan's.
  EXPECT_EQ(training_command(back, 4, "my recipe.toml", "plan/plan.toml", ""),
            "convoy train 'my recipe.toml' --plan plan/plan.toml -n 4 --set optimizer.name=adam "
            "--set threads=2");
  EXPECT_EQ(training_command(back, 4, "r.toml", "p.toml", "a:2,b:2"),
            "convoy train r.toml --plan p.toml --hosts a:2,b:2 --set optimizer.name=adam --set "
            "threads=2");
  plan.measured->overrides = {"threads=2"};
  EXPECT_EQ(training_command(plan, 1, "r.toml", "p.toml", ""),
            "convoy train r.toml --plan p.toml -n 1 --set threads=2");
  // Of a machine that was described nothing says how many threads a worker has.
  plan.measured->threads = 0;
  plan.measured->overrides.clear();
  EXPECT_EQ(training_command(plan, 1, "r.toml", "p.toml", ""),
            "convoy train r.toml --plan p.toml -n 1");
  test::spill(path, to_toml(plan));
  EXPECT_EQ(read_plan_file(path).measured->threads, 0);
  std::string wrong = to_toml(plan);
  wrong.replace(wrong.find("overrides = []"), 14, "overrides = [1]");
  test::spill(path, wrong);
  EXPECT_NE(test::message_of<UsageError>([&] {
              read_plan_file(path);
            }).find("overrides has to be a list of texts"),
            std::string::npos);
}

TEST(PlanRecipe, DiffersInWhatMakesAnotherTraining) {
  train::Recipe recipe;
  recipe.name = "mine";
  recipe.model.name = "lenet";
  recipe.data.reader = "idx";
  recipe.training.batch = 64;
  const std::string plan = compared_part(recipe);
  train::Recipe same = recipe;
  same.name = "other", same.seed = 7, same.threads = 8;
  same.training.batch = 1024, same.training.epochs = 90, same.optimizer.lr = 3;
  same.schedule.name = "cosine", same.output.folder = "elsewhere", same.data.threads = 4;
  same.evaluation.fraction = 0.1, same.data.has_validation = true;
  EXPECT_EQ(compared_part(same), plan);
  train::Recipe other = same;
  other.optimizer.name = "adam";
  other.training.clip_norm = 1;
  other.plugins = {"/elsewhere/mine.so"};
  const PlanDifference difference = difference_from_plan(compared_part(other), plan);
  EXPECT_NE(difference.training.find("optimizer.name is \"adam\", in the plan it is \"sgd\""),
            std::string::npos)
      << difference.training;
  EXPECT_NE(difference.training.find("training.clip_norm is 1.0, in the plan it is 0.0"),
            std::string::npos)
      << difference.training;
  EXPECT_TRUE(difference.places.starts_with("plugins is ")) << difference.places;
  EXPECT_EQ(difference.places.find("optimizer"), std::string::npos);
  // Plans of earlier versions have the keys of all optimizers, with their defaults.
  std::string former = plan;
  const std::string table = "[optimizer]\n";
  former.insert(former.find(table) + table.size(), "beta1 = 0.9\n");
  EXPECT_EQ(difference_from_plan(plan, former).training, "");
}

}  // namespace
}  // namespace convoy::cli
