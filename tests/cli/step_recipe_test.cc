// What `convoy bench step` and `convoy plan placement` make of their words.
#include "cli/bench/step_recipe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/placement_fields.h"
#include "convoy/base/error.h"
#include "tests/base/scratch.h"

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
