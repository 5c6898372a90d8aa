// Trainings whose placement the planner chooses.
#include "convoy/base/files.h"
#include "tests/train/hybrid_fixture.h"

namespace convoy::train {
namespace {

class AutomaticTest : public HybridTest {
 protected:
  Recipe automatic(const std::string& name, const Overrides& how) const {
    return net(name, how + Overrides{"model.options.dropout=0.4"});
  }
  // That a run has written into its folder.
  Recipe written(const Recipe& recipe) const {
    return parse_recipe(read_recipe_file(recipe.output.folder + "/recipe.toml"), {},
                        registry_.vocabulary());
  }
  RunResult train(const Recipe& recipe, const std::string& resume = "", int stop_after = 0) {
    return train_on(ranks(), recipe, stop_after, resume);
  }
};

TEST_F(AutomaticTest, TrainsWhatItHasChosen) {
  for (const Overrides& how :
       {Overrides{"strategy=auto"}, Overrides{"strategy=hybrid", "placement=auto"}}) {
    const Recipe recipe = automatic("chosen_" + how.front().substr(9), how);
    const RunResult result = train(recipe);
    if (!first()) continue;
    Recipe chosen = written(recipe);
    EXPECT_FALSE(chosen.automatic());
    EXPECT_TRUE(chosen.strategy == "sync" || chosen.strategy == "hybrid") << chosen.strategy;
    if (how.size() > 1) EXPECT_EQ(chosen.strategy, "hybrid");
    EXPECT_EQ(ranks() % chosen.grid.partitions, 0);
    if (ranks() == 1) EXPECT_EQ(chosen.grid.partitions, 1);
    EXPECT_EQ(result.steps, 6);
  }
}

TEST_F(AutomaticTest, WhatIsChosenTrainsAsIfItHadBeenGiven) {
  const Recipe recipe = automatic("planned", {"strategy=hybrid", "placement=auto"});
  const RunResult planned = train(recipe);
  all().barrier();
  Recipe given = written(recipe);
  given.output.folder = folder_ + "/given";
  const RunResult again = train(given);
  if (first()) EXPECT_TRUE(same_tensors(planned.checkpoint, again.checkpoint));
}

TEST_F(AutomaticTest, ResumedItKeepsWhatItHad) {
  // Not what would be chosen of itself: one group, and one sender at a time.
  const Overrides how{"strategy=hybrid", "grid.partitions=" + std::to_string(ranks()),
                      "hybrid.scheme=bc", "hybrid.senders=1"};
  for (const std::string strategy : {"auto", "hybrid"}) {
    const std::string name = "kept_" + strategy;
    EXPECT_TRUE(train(automatic(name, how), "", 2).stopped);
    const Recipe recipe = automatic(name, {"strategy=" + strategy, "placement=auto"});
    const RunResult end = train(recipe, "latest");
    if (!first()) continue;
    const Recipe kept = written(recipe);
    EXPECT_EQ(kept.strategy, "hybrid");
    EXPECT_EQ(kept.grid.partitions, ranks());
    EXPECT_EQ(kept.strategy_options.text("scheme"), "bc");
    EXPECT_EQ(kept.strategy_options.integer("senders"), 1);
    EXPECT_EQ(end.steps, 6);
  }
  EXPECT_TRUE(train(automatic("was_sync", {"strategy=sync"}), "", 2).stopped);
  const Recipe recipe = automatic("was_sync", {"strategy=auto"});
  train(recipe, "latest");
  if (first()) EXPECT_EQ(written(recipe).strategy, "sync");
}

TEST_F(AutomaticTest, WhereNothingCanBeDividedItIsSync) {
  const Recipe recipe =
      automatic("whole", {"strategy=auto", R"(placement.layers=[{how="replicated"}])"});
  train(recipe);
  if (first()) EXPECT_EQ(written(recipe).strategy, "sync");
}

}  // namespace
}  // namespace convoy::train
