// The recipes of the repository.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "convoy/model/blueprint.h"
#include "convoy/model/factory.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
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

}  // namespace
}  // namespace convoy::train
