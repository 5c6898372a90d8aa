// What `convoy bench downpour` says of runs.
#include <gtest/gtest.h>

#include <cstdio>

#include "cli/bench/downpour/page.h"
#include "cli/bench/downpour/table.h"
#include "tests/cli/comparison_fixture.h"

namespace convoy::cli {
namespace {

TEST_F(ComparisonTest, RowsSayWhatRunsCameTo) {
  words_.level = 0.95;
  const Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  for (const Arm& arm : comparison.arms)
    leave(comparison, folder, arm, arm.method == Method::fixed ? 0.9 : 0.98);
  const ComparedRuns runs = compared(comparison, folder);
  const auto& sgd = runs.runs[0].row;
  EXPECT_EQ(sgd["best"], 0.98);
  EXPECT_DOUBLE_EQ(sgd["last_of_training"].get<double>(), 0.99);
  EXPECT_EQ(sgd["level_step"], 70);
  // Seven evaluations of a second each held it up; that it trained for less is made up.
  EXPECT_EQ(sgd["level_s"], 0);
  EXPECT_EQ(sgd["cores_given"], 2);
  EXPECT_EQ(sgd["cores_used"], 1.5);
  EXPECT_TRUE(sgd["pushed_bytes"].is_null());
  const auto& fixed = runs.runs[1].row;
  EXPECT_TRUE(fixed["level_s"].is_null());
  EXPECT_EQ(fixed["best"], 0.9);
  const auto& adagrad = runs.runs[2].row;
  // The evaluation took the last of these seconds, and held nobody up.
  EXPECT_DOUBLE_EQ(adagrad["level_s"], 6);
  EXPECT_DOUBLE_EQ(adagrad["training_s"], 10);
  EXPECT_DOUBLE_EQ(adagrad["samples_per_s"], 2 * 60000 / 10.0);
  EXPECT_EQ(adagrad["staleness_mean"], 1.25);
  EXPECT_EQ(adagrad["used_twice"], 3);
  EXPECT_DOUBLE_EQ(adagrad["pushed_bytes_per_s"], 2000);
  EXPECT_DOUBLE_EQ(adagrad["fetched_bytes_per_s"], 4000);
}

TEST_F(ComparisonTest, TableAndPageShowThem) {
  words_.level = 0.95;
  words_.replicas = "1,2";
  const Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  for (const Arm& arm : comparison.arms)
    leave(comparison, folder, arm, arm.method == Method::fixed ? 0.9 : 0.98, 0.2);
  const ComparedRuns runs = compared(comparison, folder);
  const std::string file = scratch_.path("table");
  std::FILE* out = std::fopen(file.c_str(), "w");
  print_comparison(runs, out);
  std::fclose(out);
  const std::string table = test::slurp(file);
  EXPECT_TRUE(has(table, "best top-1")) << table;
  EXPECT_TRUE(has(table, "to 95%")) << table;
  EXPECT_TRUE(has(table, "never")) << table;
  const std::string page = make_comparison_page(comparison, runs);
  for (const char* text : {"Figure 4 of Dean et al. 2012", "Figure 5 of Dean et al. 2012",
                           "Time to 95% against replicas", "Time to 95% against cores in use",
                           "Downpour, Adagrad, 1/2 replicas", "What they come to: top-1, %",
                           "top-1 of training data, %", "last, of training data", "99.00%",
                           "Downpour, fixed rate, 2 replicas: came to 90.00%",
                           "optimizer.lr = 0.03", "warm_steps = 50"})
    EXPECT_TRUE(has(page, text)) << text;
  EXPECT_EQ(count(page, "<svg"), 1 + 4 + 2 + 2);  // definitions; all, each of two methods, times
}

// Of runs that were not evaluated on training data there is no picture of that, and no column.
TEST_F(ComparisonTest, WithoutTrainingDataItIsNotShown) {
  const Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  for (const Arm& arm : comparison.arms) leave(comparison, folder, arm);
  ComparedRuns runs = compared(comparison, folder);
  for (ComparedRun& run : runs.runs) {
    std::erase_if(run.record.metrics, [](const auto& m) { return m.name == "train_top1"; });
    for (auto& evaluation : run.record.evaluations) evaluation.metrics.erase("train_top1");
    run.row["last_of_training"] = nullptr;
  }
  const std::string page = make_comparison_page(comparison, runs);
  EXPECT_FALSE(has(page, "of training data"));
  EXPECT_EQ(count(page, "<svg"), 1 + 3);
}

// On other hosts nobody knows the processor time: there is no picture of it, rather than one at 0.
TEST_F(ComparisonTest, CoresThatAreNotKnownAreNotDrawn) {
  words_.level = 0.95;
  const Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  for (const Arm& arm : comparison.arms) leave(comparison, folder, arm);
  ComparedRuns runs = compared(comparison, folder);
  EXPECT_FALSE(has(make_comparison_page(comparison, runs), "nothing to draw"));
  for (ComparedRun& run : runs.runs) run.row["cores_used"] = nullptr;
  EXPECT_TRUE(has(make_comparison_page(comparison, runs), "nothing to draw"));
}

// A row without metrics stands beside others, with what it complained about.
TEST_F(ComparisonTest, RunsThatFailedAreShownAsSuch) {
  words_.methods = "sgd,adagrad";
  const Comparison comparison = make();
  ComparisonFolder folder(comparison.folder);
  leave(comparison, folder, comparison.arms[0]);
  ComparedRuns runs;
  runs.runs.push_back({&comparison.arms[0], train::read_run(comparison.folder + "/sgd-s1"), {}});
  runs.runs[0].row =
      row_of(comparison.arms[0], runs.runs[0].record, RunEnd{"done", "", 1.0, 1.0, ""}, {}, 2);
  runs.runs.push_back({&comparison.arms[1], {}, {}});
  runs.runs[1].row =
      row_of(comparison.arms[1], RunEnd{"failed", "the disk <is> full", 1.0, 1.0, ""});
  const std::string page = make_comparison_page(comparison, runs);
  EXPECT_TRUE(has(page, "the disk &lt;is&gt; full"));
  EXPECT_TRUE(has(page, "<span class=\"bad\">failed</span>"));
}

}  // namespace
}  // namespace convoy::cli
