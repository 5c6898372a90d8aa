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

TEST_F(RecipeAutomaticTest, WhatBothStrategiesHaveIsTheSameInBoth) {
  Vocabulary words = vocabulary();
  words.strategies["hybrid"].push_back({"bucket", std::string("8MiB"), "doc"});
  for (const char* strategy : {"hybrid", "sync"})
    words.strategies[strategy].push_back({"exact", false, "doc"});
  const auto said = [&](const std::string& strategy, const std::string& tables) {
    return test::message_of<UsageError>([&] {
      const std::string text = with("strategy = \"" + strategy + "\"", tables);
      parse_recipe({text, "mine.toml", folder_.path()}, {}, words);
    });
  };
  const std::string hybrid = "[hybrid]\nbucket = \"1MiB\"\n", sync = "[sync]\nexact = true\n";
  EXPECT_NE(said("auto", hybrid).find("hybrid.bucket and sync.bucket differ"), std::string::npos);
  EXPECT_NE(said("auto", sync).find("hybrid.exact and sync.exact differ"), std::string::npos);
  EXPECT_EQ(said("auto", hybrid + "exact = true\n" + sync + "bucket = \"1MiB\"\n"), "");
  EXPECT_EQ(said("auto", "[hybrid]\nrounds = 3\n"), "") << "sync has no such key";
  EXPECT_EQ(said("sync", hybrid), "") << "other tables don't matter";
}

}  // namespace
}  // namespace convoy::train
