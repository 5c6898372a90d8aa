// The recipes of the repository.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "convoy/model/blueprint.h"
#include "convoy/model/factory.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "convoy/train/schedule.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t digits = 3; digits < text.size(); digits += 4)
    text.insert(text.size() - digits, ",");
  return text;
}

// Each says how many parameters its network has.
TEST(MiniBatchRecipes, HaveTheNetworksOfThePaper) {
  setenv("CONVOY_DATA", "/nowhere", 0);
  const Registry registry;
  int recipes = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_folder() + "/recipes/mini-batch")) {
    SCOPED_TRACE(entry.path());
    const RecipeText text = read_recipe_file(entry.path());
    const Recipe recipe = parse_recipe(text, {}, registry.vocabulary(), Files::may_be_missing);
    EXPECT_EQ(recipe.name, entry.path().stem());
    EXPECT_EQ(recipe.optimizer.weight_decay, 1e-4);
    const model::Blueprint network = model::make_blueprint(
        recipe.model.name, {.classes = recipe.data.reader == "cifar100" ? 100 : 10});
    const std::int64_t parameters = model::cost_of(network, network.inputs).parameters;
    EXPECT_NE(text.text.find(with_commas(parameters) + " parameters"), std::string::npos)
        << parameters;
    ++recipes;
  }
  EXPECT_EQ(recipes, 12);
}

// Kumar et al. 2017, section 5.3: 90 epochs, 0.1 k n / 256 for batches of k n images after five
// epochs from 0.1 on, and a tenth after every thirty.
TEST(ImageNetRecipes, HaveThePapersSchedule) {
  setenv("CONVOY_DATA", "/nowhere", 0);
  const Registry registry;
  for (const std::string network : {"googlenet-bn", "resnet50"}) {
    SCOPED_TRACE(network);
    const RecipeText text =
        read_recipe_file(test::source_folder() + "/recipes/imagenet/" + network + ".toml");
    const Recipe recipe = parse_recipe(text, {}, registry.vocabulary(), Files::may_be_missing);
    EXPECT_EQ(recipe.model.name, network);
    const model::Blueprint net = model::make_blueprint(network);
    EXPECT_NE(
        text.text.find(with_commas(model::cost_of(net, net.inputs).parameters) + " parameters"),
        std::string::npos);
    EXPECT_EQ(recipe.training.epochs, 90);
    const double full = 0.1 * static_cast<double>(recipe.training.batch) / 256;
    const Schedule schedule(recipe.schedule, recipe.optimizer.lr, recipe.training, 625);
    const auto after = [&](std::uint64_t epoch) {
      Moment now;
      now.epoch = epoch;
      now.samples = 1'281'167;
      return schedule.at(now);
    };
    EXPECT_DOUBLE_EQ(after(0), 0.1);
    EXPECT_DOUBLE_EQ(after(5), full);
    EXPECT_DOUBLE_EQ(after(29), full);
    EXPECT_DOUBLE_EQ(after(30), full / 10);
    EXPECT_DOUBLE_EQ(after(60), full / 100);
    EXPECT_DOUBLE_EQ(after(89), full / 100);
  }
}

}  // namespace
}  // namespace convoy::train
