// Checkpoints of networks that ranks share: going on, on other grids, with other strategies; and
// using them.
#include "convoy/train/export.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/trained.h"
#include "tests/train/maps_no_more.h"
#include "tests/train/partitioned_fixture.h"

namespace convoy::train {
namespace {

using PartitionedResumeTest = PartitionedTest;

TEST_F(PartitionedResumeTest, StoppedAndResumedTheBitsAreTheSame) {
  for (const GridOf& grid : grids()) {
    for (const std::vector<std::string>& how :
         {Overrides{"model.options.dropout=0.4"},
          Overrides{"model.name=branched", "model.options.norm=true"},
          layerwise_rules()[0] + Overrides{"schedule.name=polynomial"},
          layerwise_rules()[1] + Overrides{"schedule.name=one_cycle"}}) {
      const std::string name = grid.name() + how.front();
      const Overrides all = how + Overrides{"data.drop_last=true", "output.log_samples=true"};
      const RunResult whole = train_on(grid.ranks(), partitioned("whole" + name, grid, all));
      const Recipe r = partitioned("parts" + name, grid, all);
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

// From and to every grid and other strategies.
TEST_F(PartitionedResumeTest, WhatOneGridWroteAnotherGoesOnFrom) {
  struct Way {
    std::string name;
    int ranks;
    Overrides how;
  };
  std::vector<Way> ways;
  for (const GridOf& grid :
       {GridOf{1, 1}, GridOf{1, 2}, GridOf{2, 1}, GridOf{1, 3}, GridOf{2, 2}, GridOf{1, 4}}) {
    if (grid.ranks() > ranks()) continue;
    ways.push_back(
        {grid.name(),
         grid.ranks(),
         {"strategy=partitioned", "grid.partitions=" + std::to_string(grid.partitions)}});
  }
  ways.push_back({"sync", ranks(), {"strategy=sync"}});
  ways.push_back(
      {"hybrid", ranks(), {"strategy=hybrid", "grid.partitions=" + std::to_string(ranks())}});
  ways.push_back(
      {"tiles",
       ranks(),
       {"strategy=partitioned", "grid.partitions=" + std::to_string(ranks()),
        "partitioned.images=tiles", R"(placement.layers=[{layers=["a.conv"], how="units"}])"}});
  const Overrides common{"model.options.dropout=0.4", "checkpoint.keep=9"};
  const RunResult serial = train_on(1, net("serial", common));
  for (const Way& from : ways) {
    train_on(from.ranks, net(from.name, common + from.how), 3);
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

TEST_F(PartitionedResumeTest, LayerwiseRulesGoOnOnOtherGrids) {
  expect_layerwise_rules_go_on(
      [this](const std::string& name, const Overrides& how) { return net(name, how); },
      [this](const std::string& name, const GridOf& grid, const Overrides& how) {
        return partitioned(name, grid, how);
      });
}

// Running statistics of replicas are their own, of partitions they are one replica's; some may have
// none of a layer.
TEST_F(PartitionedResumeTest, StatisticsGoOnOnOtherGrids) {
  struct Way {
    std::string name;
    int ranks;
    Overrides how;
  };
  const std::string p = std::to_string(ranks());
  std::string parts = "1";
  for (int i = 1; i < ranks(); ++i) parts += ",0";
  const std::vector<Way> ways{
      {"one", 1, {"strategy=partitioned"}},
      {"sync", ranks(), {"strategy=sync"}},
      {"rows", ranks(), {"strategy=partitioned", "grid.partitions=" + p}},
      {"units",
       ranks(),
       {"strategy=partitioned", "grid.partitions=" + p,
        R"(placement.layers=[{layers=["stem.conv"], how="units"}])"}},
      {"some",
       ranks(),
       {"strategy=partitioned", "grid.partitions=" + p,
        R"(placement.layers=[{layers=["stem.conv"], how="units", parts=[)" + parts + "]}]"}},
      {"replicas", ranks(), {"strategy=partitioned", "grid.partitions=1"}}};
  const Overrides common{"model.name=branched", "model.options.norm=true", "data.drop_last=true",
                         "checkpoint.keep=9"};
  for (const Way& from : ways) {
    train_on(from.ranks, net(from.name, common + from.how), 3);
    for (const Way& to : ways) {
      const std::string run = from.name + "-" + to.name;
      if (first()) {
        std::filesystem::copy(folder_ + "/" + from.name, folder_ + "/" + run,
                              std::filesystem::copy_options::recursive);
      }
      all().barrier();
      const RunResult result = train_on(to.ranks, net(run, common + to.how), 0, "latest");
      if (!first()) continue;
      EXPECT_EQ(result.steps, 5) << run;
      ASSERT_TRUE(result.evaluation) << run;
      EXPECT_TRUE(std::isfinite(result.evaluation->at("loss"))) << run;
    }
  }
}

// A part of the same size that begins elsewhere has other channels: what the replicas had together
// counts then, as where rows are divided.
TEST_F(PartitionedResumeTest, StatisticsAreOfTheSameChannels) {
  if (ranks() != 6) GTEST_SKIP() << "two replicas of three partitions";
  const auto units = [](const char* parts) {
    return Overrides{R"(placement.layers=[{layers=["stem.conv"], how="units", parts=)" +
                     std::string(parts) + "}]"};
  };
  const Overrides common{"strategy=partitioned", "grid.partitions=3", "model.name=branched",
                         "data.drop_last=true",  "checkpoint.keep=9", "model.options.norm=true"};
  train_on(ranks(), net("units", common + units("[1, 1, 2]")), 3);
  std::vector<std::string> ends;
  for (const Overrides& how : {units("[2, 1, 1]"), Overrides{}}) {
    const std::string run = how.empty() ? "rows" : "others";
    if (first()) {
      std::filesystem::copy(folder_ + "/units", folder_ + "/" + run,
                            std::filesystem::copy_options::recursive);
    }
    all().barrier();
    ends.push_back(train_on(ranks(), net(run, common + how), 0, "latest").checkpoint);
  }
  if (first()) EXPECT_LT(relative_difference(ends[0], ends[1]), 1e-9);
}

TEST_F(PartitionedResumeTest, IsEvaluatedPredictsAndIsExportedAsTheWhole) {
  for (const GridOf& grid : grids()) {
    const Recipe r = partitioned(grid.name(), grid, {"data.pixel=float32"});
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
    all().barrier();
    if (!first()) continue;
    const std::string file = folder_ + "/" + grid.name() + ".safetensors";
    export_model(result.checkpoint, file, false);
    const SafetensorsFile exported(file);
    for (const TensorView& view : exported.tensors()) {
      if (view.name == "c.fc.weight") EXPECT_EQ(view.shape, (std::vector<std::int64_t>{11, 24}));
    }
  }
}

// One that the process has no room for is not begun to be built, whatever trained it.
TEST_F(PartitionedResumeTest, ANetworkThatIsTooLargeToBeUsedIsRefused) {
  const RunResult before =
      train_on(1, net("large", {"model.name=mlp", "model.options.hidden=[3000, 3000]",
                                "strategy=partitioned", "training.steps=1", "training.epochs=0"}));
  if (!first()) return;
  std::string said;
  comm::World::run_threads(1, [&](comm::World& world) {
    const TrainedSource source = find_trained(registry_, before.checkpoint, Which::newest, {});
    const test::MapsNoMore limit(24 << 20);
    said = test::message_of<UsageError>([&] { Trained(world, registry_, source); });
  });
  EXPECT_TRUE(said.starts_with("rank 0 needs ")) << said;
  EXPECT_NE(said.find(" to use it (parameters, and values of 12 samples), and can have "),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("(--set grid.partitions="), std::string::npos) << said;
}

TEST_F(PartitionedResumeTest, StartsFromAFileOfTheWhole) {
  const RunResult before = train_on(1, net("before", {"seed=7"}), 4);
  const std::string file = folder_ + "/weights.safetensors";
  if (first()) export_model(before.checkpoint, file, false);
  all().barrier();
  const Overrides start{"model.weights=\"" + file + "\""};
  const RunResult serial = train_on(1, net("serial", start));
  for (const GridOf& grid : grids())
    expect_equal(serial, train_on(ranks(), partitioned(grid.name(), grid, start)), grid.name());
}

}  // namespace
}  // namespace convoy::train
