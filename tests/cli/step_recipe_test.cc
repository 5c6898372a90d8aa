// What `convoy bench step` and `convoy plan placement` make of their words.
#include "cli/bench/step_recipe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/placement_fields.h"
#include "cli/plan/partition_plan.h"
#include "cli/plan/placement_problem.h"
#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

TEST(StepRecipe, CopiesTrainTheImagesThatTheyAreCountedWith) {
  train::Registry registry;
  add_made_up_images(registry);
  StepWords words;
  words.model = "lenet";
  words.batch_per_rank = 4;
  const auto batch = [&] { return step_recipe(words, 3, registry).training.batch; };
  EXPECT_EQ(batch(), 12);
  words.overrides = {"training.batch=11", "model.name=alexnet"};
  EXPECT_EQ(batch(), 11);
  const train::Recipe recipe = step_recipe(words, 3, registry);
  EXPECT_EQ(recipe.data.train.integer("height"), 224);
  std::vector<std::int64_t> images;
  for (int rank = 0; rank < 3; ++rank) {
    images.push_back(images_of_rank(recipe, rank, 3));
    const train::Recipe copy = independent_recipe(words, images.back(), 2, registry);
    EXPECT_EQ(copy.training.batch, images.back());
    EXPECT_EQ(copy.model.name, "alexnet");
    EXPECT_EQ(copy.threads, 2);
  }
  EXPECT_EQ(images, (std::vector<std::int64_t>{4, 4, 3}));
}

TEST(StepRecipe, DividesTheNetworkOverAllRanks) {
  train::Registry registry;
  add_made_up_images(registry);
  StepWords words;
  words.model = "lenet";
  words.strategy = "partitioned";
  words.batch = 10;
  const train::Recipe recipe = step_recipe(words, 4, registry);
  EXPECT_EQ(recipe.strategy, "partitioned");
  EXPECT_EQ(recipe.grid.partitions, 4);
  EXPECT_EQ(recipe.training.batch, 10);
  words.partitions = 2;
  EXPECT_EQ(step_recipe(words, 4, registry).grid.partitions, 2);
}

TEST(StepRecipe, MadeUpImagesAreAsTheKeysHaveThem) {
  train::Registry registry;
  add_made_up_images(registry);
  StepWords words;
  words.model = "resnet18";
  words.overrides = {"data.size=64", "data.channels=1"};
  const train::Recipe sized = step_recipe(words, 1, registry);
  EXPECT_EQ(sized.data.train.integer("height"), 64);
  EXPECT_EQ(sized.data.train.integer("width"), 64);
  EXPECT_EQ(sized.data.train.integer("channels"), 1);
  // To be cut, then.
  words.overrides = {"data.size=64", "data.train.height=70"};
  EXPECT_EQ(step_recipe(words, 1, registry).data.train.integer("height"), 70);
}

TEST(PartitionPlan, IsOfImagesAsTheKeysHaveThemAndOfNoOtherStrategy) {
  const auto planned = [](const std::vector<std::string>& overrides) {
    return plan_of({.what = "resnet18",
                    .partitions = 2,
                    .by = "",
                    .balance = "",
                    .speeds = {},
                    .batch = 0,
                    .overrides = overrides});
  };
  const PlannedPartition sized = planned({"data.size=64"});
  EXPECT_LT(sized.macs, planned({}).macs);
  EXPECT_EQ(sized.macs, planned({"data.train.height=64", "data.train.width=64"}).macs);
  EXPECT_NE(test::message_of<UsageError>([&] {
              planned({"strategy=sync"});
            }).find("leave strategy out of --set"),
            std::string::npos);
}

// Its model, its data and its batch.
TEST(PlacementProblem, OfARecipe) {
  const test::Scratch scratch;
  write_bars(scratch.path());
  const train::RecipeText text{kRecipe, "mine.toml", scratch.path()};
  train::Registry registry;
  PlacementWords words;
  const auto problem = [&] { return placement_problem(words, &text, 2, registry); };
  const train::PlacementProblem of_recipe = problem();
  EXPECT_EQ(of_recipe.ranks, 2);
  EXPECT_EQ(of_recipe.samples_per_rank, 20);
  EXPECT_EQ(of_recipe.recipe.training.batch, 40);
  EXPECT_EQ(of_recipe.recipe.model.name, "lenet");
  EXPECT_EQ(of_recipe.inputs, (std::vector<model::Shape>{{1, kSide, kSide}}));
  words.step.batch_per_rank = 4;
  words.batch_given = true;
  words.step.overrides = {"strategy=auto"};
  EXPECT_EQ(problem().samples_per_rank, 4);
  EXPECT_EQ(problem().recipe.strategy, "hybrid");
  words.step.overrides = {"strategy=partitioned"};
  EXPECT_NE(test::message_of<UsageError>([&] {
              problem();
            }).find("the plan compares sync and hybrid: --set strategy=sync"),
            std::string::npos);
}

TEST(StepRecipe, HasAPlacement) {
  train::Registry registry;
  add_made_up_images(registry);
  StepWords words;
  words.model = "lenet";
  using Overrides = std::vector<std::string>;
  for (const Overrides& overrides :
       {Overrides{"strategy=auto"}, Overrides{"strategy=hybrid", "placement=auto"}}) {
    words.overrides = overrides;
    EXPECT_NE(test::message_of<UsageError>([&] {
                step_recipe(words, 2, registry);
              }).find("leaves its placement to the planner"),
              std::string::npos);
  }
}

TEST(PlacementFields, AreThoseOfARecipe) {
  using plan::Parallelism;
  const auto fields = [](const plan::Placement& placement) {
    return nlohmann::json(placement_fields(placement, 8));
  };
  nlohmann::json all{{"scheme", "bc"},         {"senders", 2},    {"passes", 0},
                     {"variable_batch", true}, {"partitions", 4}, {"replicas", 2}};
  EXPECT_EQ(fields({Parallelism::hybrid, 4, 2, true}), all);
  all.update({{"scheme", "c"}, {"senders", 0}, {"passes", 3}, {"variable_batch", false}});
  EXPECT_EQ(fields({Parallelism::hybrid, 4, 4, false, 3}), all);
  EXPECT_EQ(fields({Parallelism::data}), nlohmann::json::object());
}

}  // namespace
}  // namespace convoy::cli
