// Checkpoints of divided layers: going on, on other grids, with other strategies; and using them.
#include "convoy/train/export.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/trained.h"
#include "tests/train/hybrid_fixture.h"

namespace convoy::train {
namespace {

constexpr int kStop = 3;

using HybridResumeTest = HybridTest;

TEST_F(HybridResumeTest, StoppedAndResumedTheBitsAreTheSame) {
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      if (scheme.name != "c" && scheme.name != "c7" && scheme.name != "bc2") continue;
      const std::string name = grid.name() + scheme.name;
      const Overrides how =
          scheme.overrides + Overrides{"model.options.dropout=0.4", "model.options.norm=true",
                                       "data.drop_last=true", "output.log_samples=true"};
      const RunResult whole = train_on(grid.ranks(), hybrid("whole" + name, grid, how));
      const Recipe r = hybrid("parts" + name, grid, how);
      EXPECT_TRUE(train_on(grid.ranks(), r, 2).stopped);
      EXPECT_TRUE(train_on(grid.ranks(), r, 1, "latest").stopped);
      const RunResult end = train_on(grid.ranks(), r, 0, "latest");
      if (!first()) continue;
      EXPECT_EQ(end.steps, 5) << name;
      EXPECT_TRUE(same_tensors(whole.checkpoint, end.checkpoint)) << name;
      expect_each_once(r, 60);
    }
  }
}

// From and to every grid, with and without other layers divided, and data parallelism alone.
TEST_F(HybridResumeTest, WhatOneGridWroteAnotherGoesOnFrom) {
  struct Way {
    std::string name;
    int ranks;
    Overrides how;
  };
  std::vector<Way> ways;
  for (const GridOf& grid :
       {GridOf{1, 1}, GridOf{1, 2}, GridOf{2, 1}, GridOf{1, 3}, GridOf{2, 2}, GridOf{1, 4}}) {
    if (grid.ranks() > ranks()) continue;
    ways.push_back({grid.name(),
                    grid.ranks(),
                    {"strategy=hybrid", "grid.partitions=" + std::to_string(grid.partitions)}});
  }
  ways.push_back({"sync", ranks(), {"strategy=sync"}});
  ways.push_back({"other",
                  ranks(),
                  {"strategy=hybrid", "grid.partitions=" + std::to_string(ranks()),
                   R"(placement.layers=[{layers=["c.1"], how="replicated"}])"}});
  const Overrides common{"model.options.dropout=0.4", "checkpoint.keep=9"};
  const RunResult serial = train_on(1, net("serial", common));
  for (const Way& from : ways) {
    train_on(from.ranks, net(from.name, common + from.how), kStop);
    for (const Way& to : ways) {
      // All pairs are many: those that smaller jobs have are tried there.
      if (from.ranks != ranks() && to.ranks != ranks()) continue;
      const std::string run = from.name + "-" + to.name;
      if (first()) {
        std::filesystem::copy(folder_ + "/" + from.name, folder_ + "/" + run,
                              std::filesystem::copy_options::recursive);
      }
      all().barrier();
      const RunResult result = train_on(to.ranks, net(run, common + to.how), 0, "latest");
      expect_equal(serial, result, run);
    }
  }
}

TEST_F(HybridResumeTest, LayerwiseRulesGoOnOnOtherGrids) {
  expect_layerwise_rules_go_on(
      [this](const std::string& name, const Overrides& how) { return net(name, how); },
      [this](const std::string& name, const GridOf& grid, const Overrides& how) {
        return hybrid(name, grid, how);
      });
}

// On the same grid, in the middle of a schedule.
TEST_F(HybridResumeTest, LayerwiseRulesGoOnToTheSameBits) {
  const std::vector<Overrides> rules = layerwise_rules();
  for (const GridOf& grid : grids()) {
    for (const Overrides& how : {rules.at(0) + Overrides{"schedule.name=polynomial"},
                                 rules.at(1) + Overrides{"schedule.name=one_cycle"}}) {
      const std::string name = grid.name() + how.front();
      const RunResult whole = train_on(grid.ranks(), hybrid("whole" + name, grid, how));
      const Recipe r = hybrid("parts" + name, grid, how);
      EXPECT_TRUE(train_on(grid.ranks(), r, kStop).stopped);
      const RunResult end = train_on(grid.ranks(), r, 0, "latest");
      if (!first()) continue;
      EXPECT_EQ(end.steps, 6) << name;
      EXPECT_TRUE(same_tensors(whole.checkpoint, end.checkpoint)) << name;
    }
  }
}

TEST_F(HybridResumeTest, IsEvaluatedPredictsAndIsExportedAsTheWhole) {
  for (const GridOf& grid : grids()) {
    const Recipe r = hybrid(grid.name(), grid, {"data.pixel=float32"});
    const RunResult result = train_on(ranks(), r);
    const auto used = [&](const std::vector<std::string>& how) {
      return Trained(test_world(), registry_,
                     find_trained(registry_, r.output.folder, Which::newest, how));
    };
    Trained parts = used({}), whole = used({"strategy=sync", "grid.partitions=1"});
    const auto data = registry_.open_data(r.data.reader, r.data.validation);
    const Evaluation mine = parts.evaluate(data), theirs = whole.evaluate(data);
    EXPECT_EQ(mine.at("top1"), theirs.at("top1"));
    EXPECT_NEAR(mine.at("loss"), theirs.at("loss"), 1e-12);
    EXPECT_EQ(mine.samples, 40u);
    if (first()) EXPECT_EQ(mine.at("top1"), result.evaluation->at("top1"));
    const std::vector<std::string> files = pictures(r);
    const auto answers = parts.predict(files, 3), expected = whole.predict(files, 3);
    ASSERT_EQ(answers.size(), files.size());
    EXPECT_NE(answers[0].error, "");
    for (std::size_t i = 1; i < files.size(); ++i)
      EXPECT_EQ(answers[i].lines, expected[i].lines) << i;
    // One rank has the whole network, without being told so.
    comm::World::run_threads(1, [&](comm::World& world) {
      Trained alone(world, registry_, find_trained(registry_, r.output.folder, Which::newest, {}));
      EXPECT_EQ(alone.evaluate(data).at("top1"), theirs.at("top1"));
      EXPECT_EQ(alone.predict(files, 3)[1].lines, expected[1].lines);
    });
    all().barrier();
    if (!first()) continue;
    const std::string file = folder_ + "/" + grid.name() + ".safetensors";
    export_model(result.checkpoint, file, false);
    const SafetensorsFile exported(file);
    EXPECT_EQ(exported.metadata().at("model"), "net");
    EXPECT_EQ(exported.metadata().at("classes"), R"(["dark","gray","light"])");
    EXPECT_EQ(exported.metadata().at("data.mean"), "[ 0.0 ]");
    for (const TensorView& view : exported.tensors()) {
      if (view.name == "c.1.weight") EXPECT_EQ(view.shape, (std::vector<std::int64_t>{11, 64}));
    }
  }
}

// Each rank takes its units of a file of the whole.
TEST_F(HybridResumeTest, StartsFromAFileOfTheWhole) {
  const RunResult before = train_on(1, net("before", {"seed=7"}), 4);
  const std::string file = folder_ + "/weights.safetensors";
  if (first()) export_model(before.checkpoint, file, false);
  all().barrier();
  const Overrides start{"model.weights=\"" + file + "\""};
  const RunResult serial = train_on(1, net("serial", start));
  for (const GridOf& grid : grids())
    expect_equal(serial, train_on(ranks(), hybrid(grid.name(), grid, start)), grid.name());
  for (const GridOf& grid : grids()) {
    if (grid.partitions == 1) continue;
    const std::string said = refusal(hybrid("other", grid, start + Overrides{"model.classes=9"}));
    EXPECT_NE(said.find("c.6.weight is [8, 9] in the file"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace convoy::train
