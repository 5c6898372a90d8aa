// Recipes that leave strategy or placement to the planner.
#include "tests/train/recipe_fixture.h"

namespace convoy::train {
namespace {

using RecipeAutomaticTest = RecipeTest;

std::string with(const std::string& line, const std::string& tables = "") {
  return line + "\n" + kGood + "\n" + tables;
}

TEST_F(RecipeAutomaticTest, KeepsTheTablesOfBothStrategies) {
  const Recipe recipe = parse(with("strategy = \"auto\"", "[hybrid]\nrounds = 3\n"));
  EXPECT_TRUE(recipe.automatic());
  EXPECT_EQ(recipe.candidates.at("hybrid").integer("rounds"), 3);
  EXPECT_EQ(recipe.candidates.at("sync").text("bucket"), "8MiB");
  const std::string printed = print_recipe(recipe, false);
  EXPECT_NE(printed.find("strategy = \"auto\""), std::string::npos);
  EXPECT_NE(printed.find("rounds = 3"), std::string::npos);
  EXPECT_EQ(print_recipe(parse(printed), false), printed);
  EXPECT_EQ(print_recipe(parse(print_recipe(recipe, true)), false), printed) << "with comments";
  // What is wrong with either is said.
  EXPECT_NE(problems(with("strategy = \"auto\"", "[hybrid]\nrounds = 0\n"))
                .find("hybrid.rounds has to be at least 1"),
            std::string::npos);
  EXPECT_NE(problems(with("strategy = \"auto\"", "[sync]\nbukket = \"1MiB\"\n"))
                .find("did you mean sync.bucket?"),
            std::string::npos);
  EXPECT_FALSE(parse(kGood).automatic());
  EXPECT_TRUE(parse(kGood, {"strategy=auto"}).automatic());
}

TEST_F(RecipeAutomaticTest, HybridMayBePlacedAutomatically) {
  const Recipe recipe = parse(with("strategy = \"hybrid\"\nplacement = \"auto\""));
  EXPECT_TRUE(recipe.placement.automatic);
  EXPECT_TRUE(recipe.automatic());
  const std::string printed = print_recipe(recipe, false);
  EXPECT_NE(printed.find("placement = \"auto\""), std::string::npos);
  EXPECT_EQ(printed.find("[placement]"), std::string::npos);
  EXPECT_EQ(print_recipe(parse(printed), false), printed);
  EXPECT_TRUE(parse(kGood, {"strategy=hybrid", "placement=auto"}).automatic());
  EXPECT_TRUE(parse(with("strategy = \"auto\"\nplacement = \"auto\"")).automatic());
}

TEST_F(RecipeAutomaticTest, WhatIsChosenIsNotGiven) {
  EXPECT_NE(problems(with("strategy = \"auto\"", "[hybrid]\nscheme = \"c\"\n"))
                .find("hybrid.scheme is chosen where strategy is \"auto\": leave it out"),
            std::string::npos);
  EXPECT_NE(
      problems(with("strategy = \"hybrid\"\nplacement = \"auto\"", "[grid]\npartitions = 2\n"))
          .find("grid.partitions is chosen where placement is \"auto\""),
      std::string::npos);
  EXPECT_NE(problems(with("placement = \"auto\""))
                .find("which is for strategy = \"hybrid\", or \"auto\"; it is \"sync\""),
            std::string::npos);
  EXPECT_NE(problems(with("placement = \"here\"")).find("placement: can be \"auto\", or tables"),
            std::string::npos);
  EXPECT_NE(problems(with("strategy = \"autp\""))
                .find("there are auto, hybrid, sync; did you mean auto?"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::train
