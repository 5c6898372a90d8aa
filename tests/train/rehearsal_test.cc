// Updates that are made to be measured are those of a run.
#include "convoy/train/rehearsal.h"

#include <filesystem>

#include "tests/train/hybrid_fixture.h"

namespace convoy::train {
namespace {

class RehearsalTest : public HybridTest {
 protected:
  // Three updates by a strategy on all ranks.
  Recipe three(const std::string& strategy, const std::string& name) const {
    std::vector<std::string> overrides{"strategy=" + strategy, "training.epochs=0",
                                       "training.steps=3"};
    if (strategy == "hybrid") overrides.push_back("grid.partitions=" + std::to_string(ranks()));
    return net(name, overrides);
  }
};

TEST_F(RehearsalTest, MakesTheUpdatesOfARun) {
  for (const std::string strategy : {"sync", "hybrid"}) {
    TrainerOptions options;
    options.progress = false;
    const RunResult run =
        Trainer(test_world(), registry_, three(strategy, strategy + "_run"), options).run();
    const Recipe recipe = three(strategy, strategy + "_rehearsal");
    Rehearsal rehearsal(test_world(), registry_, recipe);
    EXPECT_EQ(rehearsal.make_updates(2).size(), 2u);
    Timeline timeline;
    const std::vector<StepReport> third = rehearsal.make_updates(1, &timeline);
    ASSERT_EQ(third.size(), 1u);
    EXPECT_EQ(third.front().loss, run.loss) << strategy;
    EXPECT_FALSE(timeline.empty());
    // It goes on where a run would end.
    EXPECT_EQ(rehearsal.make_updates(2).size(), 2u);
    EXPECT_FALSE(std::filesystem::exists(recipe.output.folder)) << recipe.output.folder;
    const Communicated told = rehearsal.strategy().communicated();
    EXPECT_EQ(told.sums.steps, 5u);
    EXPECT_EQ(told.exchanged.empty(), strategy == "sync");
  }
}

TEST_F(RehearsalTest, EndsWhereALossIsNoNumber) {
  Recipe recipe = three("sync", "wild");
  recipe.optimizer.lr = 1e200;
  Rehearsal rehearsal(test_world(), registry_, recipe);
  EXPECT_THROW(rehearsal.make_updates(50), Failure);
}

}  // namespace
}  // namespace convoy::train
