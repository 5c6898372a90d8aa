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

// The same with a sixth of the epochs, for the ten classes of Imagenette.
TEST(ImagenetteRecipes, HaveThePapersScheduleScaledDown) {
  setenv("CONVOY_DATA", "/nowhere", 0);
  const Registry registry;
  for (const std::string network : {"googlenet-bn", "resnet18"}) {
    SCOPED_TRACE(network);
    const std::string name = "imagenette-" + network;
    const RecipeText text =
        read_recipe_file(test::source_folder() + "/recipes/imagenet/" + name + ".toml");
    const Recipe recipe = parse_recipe(text, {}, registry.vocabulary(), Files::may_be_missing);
    EXPECT_EQ(recipe.name, name);
    EXPECT_EQ(recipe.model.name, network);
    const model::Blueprint net = model::make_blueprint(network, {.classes = 10});
    const std::int64_t parameters = model::cost_of(net, net.inputs).parameters;
    EXPECT_NE(text.text.find(with_commas(parameters) + " parameters"), std::string::npos)
        << parameters;
    EXPECT_EQ(recipe.training.epochs, 15);
    const double full = 0.1 * static_cast<double>(recipe.training.batch) / 256;
    const Schedule schedule(recipe.schedule, recipe.optimizer.lr, recipe.training, 63);
    const auto after = [&](std::uint64_t epoch) {
      Moment now;
      now.epoch = epoch;
      now.samples = 2000;
      return schedule.at(now);
    };
    EXPECT_DOUBLE_EQ(after(0), full / 8);
    EXPECT_DOUBLE_EQ(after(1), full);
    EXPECT_DOUBLE_EQ(after(4), full);
    EXPECT_DOUBLE_EQ(after(5), full / 10);
    EXPECT_DOUBLE_EQ(after(10), full / 100);
    EXPECT_DOUBLE_EQ(after(14), full / 100);
  }
}

// One cycle over twenty epochs: from a 25th of the rate to its peak in the fourth, and down to
// nothing with the last update.
TEST(Cifar10Recipe, HasOneCycleInTwentyEpochs) {
  setenv("CONVOY_DATA", "/nowhere", 0);
  const Registry registry;
  const std::string file = test::source_folder() + "/recipes/resnet20-cifar10.toml";
  const RecipeText text = read_recipe_file(file);
  const Recipe recipe = parse_recipe(text, {}, registry.vocabulary(), Files::may_be_missing);
  EXPECT_EQ(recipe.name, "resnet20-cifar10");
  const model::Blueprint net = model::make_blueprint(recipe.model.name, {.classes = 10});
  const std::int64_t parameters = model::cost_of(net, net.inputs).parameters;
  EXPECT_NE(text.text.find(with_commas(parameters) + " parameters"), std::string::npos)
      << parameters;
  ASSERT_EQ(recipe.training.epochs, 20);
  ASSERT_EQ(recipe.optimizer.groups.size(), 1u);
  EXPECT_EQ(recipe.optimizer.groups[0].max_dims, 1);
  EXPECT_EQ(recipe.optimizer.groups[0].weight_decay, 0.0);
  constexpr std::size_t kSamples = 50'000;
  const auto batch = static_cast<std::size_t>(recipe.training.batch);
  const std::size_t updates = (kSamples + batch - 1) / batch;
  const double lr = recipe.optimizer.lr;
  const Schedule schedule(recipe.schedule, lr, recipe.training, static_cast<double>(updates));
  const auto rate = [&](std::uint64_t epoch, std::size_t update) {
    Moment now;
    now.epoch = epoch;
    now.consumed = update * batch;
    now.samples = kSamples;
    return schedule.at(now);
  };
  EXPECT_NEAR(rate(0, 0), lr / 25, 1e-12);
  EXPECT_NEAR(rate(3, updates - 1), lr, 1e-6 * lr);
  EXPECT_NEAR(rate(4, 0), lr, 1e-6 * lr);
  EXPECT_LT(rate(3, 0), lr);
  EXPECT_LT(rate(5, 0), lr);
  EXPECT_NEAR(rate(19, updates - 1), lr / 25 / 10'000, 1e-12);
}

}  // namespace
}  // namespace convoy::train
