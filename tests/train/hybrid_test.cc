// Ranks that share fully connected layers train what one process does.
#include "tests/train/hybrid_fixture.h"

namespace convoy::train {
namespace {

const std::vector<std::string> kDrop{"model.options.dropout=0.4"};

// 61 samples in batches of 12: the last batch of an epoch leaves all ranks but one without any.
TEST_F(HybridTest, EverySchemeTrainsAsOneProcess) {
  const RunResult serial = train_on(1, net("serial", kDrop));
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      const std::string name = grid.name() + scheme.name;
      const RunResult result =
          train_on(grid.ranks(), hybrid(name, grid, kDrop + scheme.overrides));
      expect_equal(serial, result, name);
    }
  }
}

TEST_F(HybridTest, HoweverItIsTrained) {
  int number = 0;
  for (const Overrides& how :
       {Overrides{"training.clip_norm=0.05"}, Overrides{"optimizer.name=adam", "optimizer.momentum=0"},
        Overrides{"data.on_bad=skip", "data.train.bad_every=7"}, Overrides{"training.batch=11"},
        Overrides{"task.name=one_vs_all"}, Overrides{"task.options.label_smoothing=0.1"},
        Overrides{R"(optimizer.groups=[{parameters=["c.6.*"], lr_scale=0.5, weight_decay=0.01}])"},
        Overrides{"evaluation.batch=7"}, Overrides{"model.channels_last=true"}}) {
    const std::string tag = std::to_string(number++);
    const RunResult serial = train_on(1, net("serial" + tag, kDrop + how));
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + "-" + tag;
      expect_equal(serial, train_on(grid.ranks(), hybrid(name, grid, kDrop + how)),
                   name + how.front());
    }
  }
}

// Units need not divide, nor be shared out evenly; a layer less is partitioned; or no other.
TEST_F(HybridTest, HoweverLayersArePlaced) {
  const RunResult serial = train_on(1, net("serial", kDrop));
  for (const GridOf& grid : grids()) {
    std::string parts = "3";
    for (int p = 1; p < grid.partitions; ++p) parts += p % 2 == 1 ? ",1" : ",1.5";
    const Overrides rules{
        R"([{layers=["c.*"], how="partitioned", parts=[)" + parts + "]}]",
        R"([{layers=["c.1"], how="partitioned", parts=[)" + parts +
            R"(]}, {layers=["c.6"], how="partitioned"}])",
        R"([{layers=["c.1"], how="replicated"}])",
        R"([{layers=["c.1", "c.4"], how="replicated"}])"};
    int number = 0;
    for (const std::string& rule : rules) {
      for (const char* scheme : {"a", "b", "c"}) {
        const std::string name = grid.name() + scheme + std::to_string(number);
        expect_equal(serial,
                     train_on(grid.ranks(),
                              hybrid(name, grid, kDrop + Overrides{"placement.layers=" + rule,
                                                                   std::string("hybrid.scheme=") + scheme})),
                     name + rule);
      }
      ++number;
    }
  }
}

TEST_F(HybridTest, BatchNormalizationOverAllRanks) {
  const Overrides how{"model.options.norm=true", "data.drop_last=true"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    expect_equal(serial,
                 train_on(grid.ranks(), hybrid(grid.name(), grid, how + Overrides{"hybrid.batch_norm=synchronized"})),
                 grid.name());
  }
}

TEST_F(HybridTest, InFloatAndMixedPrecision) {
  const Overrides single{"precision=float32"}, mixed{"precision=bfloat16"};
  const RunResult serial = train_on(1, net("serial", kDrop + single));
  const RunResult rough = train_on(1, net("rough", kDrop + mixed));
  for (const GridOf& grid : grids()) {
    expect_equal(serial, train_on(grid.ranks(), hybrid(grid.name(), grid, kDrop + single)),
                 grid.name(), 1e-4);
    const RunResult result = train_on(grid.ranks(), hybrid(grid.name() + "m", grid, kDrop + mixed));
    if (!first()) continue;
    EXPECT_EQ(state_of(result.checkpoint).model.at("c.1.weight").scalar_type(), torch::kFloat);
    EXPECT_LT(relative_difference(rough.checkpoint, result.checkpoint), 0.05);
  }
}

}  // namespace
}  // namespace convoy::train
