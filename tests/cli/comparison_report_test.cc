// What `convoy bench downpour` says of runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "cli/bench/downpour/page.h"
#include "cli/bench/downpour/projection.h"
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

// Two shards with backups; links of 1 MB/s, a network of 1 MB.
TEST_F(ComparisonTest, ProjectsWhatMachinesOfTheirOwnWouldTake) {
  words_.methods = "adagrad";
  const Comparison comparison = make();
  const Arm& adagrad = comparison.arms[0];
  Arm sandblaster = adagrad;
  sandblaster.method = Method::sandblaster;
  sandblaster.replicas = 1;
  ComparedRuns runs;
  runs.level = 0.9;
  ComparedRun run{&sandblaster, {}, {}};
  run.record.best = "top1";
  run.record.metrics = {{"top1", "top-1", true, true}};
  run.record.parts.resize(1);
  run.record.parts[0].numbers["parameters"] = 250'000;
  const auto evaluation = [](std::int64_t step, double top1) {
    train::EvaluationRecord record;
    record.step = step;
    record.metrics["top1"] = top1;
    return record;
  };
  run.record.evaluations = {evaluation(1, 0.5), evaluation(2, 0.95), evaluation(3, 0.96)};
  const double evaluations[] = {1, 2, 1, 1};  // of iterations
  double now = 0;
  for (int iteration = 0; iteration < 4; ++iteration) {
    train::IterationRecord record;
    record.step = iteration;
    record.evaluations = evaluations[iteration];
    run.record.iterations.push_back(record);
    for (double e = 0; e < record.evaluations; ++e) {
      for (int group = 0; group < 4; ++group, now += 10) {
        run.record.groups.push_back({.iteration = iteration,
                                     .evaluation = e,
                                     .first = 10.0 * group,
                                     .portions = 10,
                                     .replica = 1,
                                     .began_s = now,
                                     .ended_s = now + 10});
      }
      now += 0.5;
    }
  }
  run.row = {{"level_s", 163}, {"pushed_bytes", 20'000'000}};
  runs.runs.push_back(run);
  ComparedRun other{&adagrad, run.record, {}};
  // Rows of 0 are of times in which no replica had reported.
  other.record.steps.phases[train::kForward] = {0, 0, 0.25, 0, 0.5, 2, 0};
  other.row = {{"level_s", 70},
               {"level_step", 50},
               {"steps", 100},
               {"pushed_bytes", 100'000'000},
               {"fetched_bytes", 150'000'000}};
  runs.runs.push_back(other);

  const Projection projection = project(runs, {0.008, {1, 10, 100}});
  ASSERT_EQ(projection.rows.size(), 4u);
  // Four evaluations of 40 portions of a second, half a second between two.
  const Projected& one = projection.rows[0];
  EXPECT_EQ(one.replicas, 1);
  EXPECT_EQ(one.measured_s, 163);
  EXPECT_EQ(one.units, 4);
  EXPECT_DOUBLE_EQ(one.compute_s, 40);
  EXPECT_DOUBLE_EQ(one.servers_s, 4);  // four times 1 MB, to two servers each
  EXPECT_DOUBLE_EQ(one.wait_s, 1.5);
  EXPECT_DOUBLE_EQ(one.projected_s, 4 * 41.5);
  EXPECT_EQ(one.bound, "computing");
  const Projected& ten = projection.rows[1];
  EXPECT_TRUE(std::isnan(ten.measured_s));
  EXPECT_DOUBLE_EQ(ten.compute_s, 4);
  EXPECT_DOUBLE_EQ(ten.servers_s, 40);
  EXPECT_DOUBLE_EQ(ten.wait_s, 5.5);
  EXPECT_EQ(ten.bound, "servers' links");
  // No more than a push for each portion, and no less than a portion.
  EXPECT_DOUBLE_EQ(projection.rows[2].servers_s, 40);
  EXPECT_DOUBLE_EQ(projection.rows[2].compute_s, 1);
  const Projected& downpour = projection.rows[3];
  EXPECT_EQ(downpour.method, Method::adagrad);
  EXPECT_EQ(downpour.replicas, 4);
  EXPECT_DOUBLE_EQ(downpour.compute_s, 0.5);
  EXPECT_DOUBLE_EQ(downpour.servers_s, 4);
  EXPECT_DOUBLE_EQ(downpour.projected_s, 50.0 / 4 * 4);

  const std::string file = scratch_.path("projection");
  std::FILE* out = std::fopen(file.c_str(), "w");
  print_projection(projection, out);
  std::fclose(out);
  const std::string text = test::slurp(file);
  for (const char* part : {"Projected", "servers' links", "0.008 Gbit/s", "Downpour, Adagrad"})
    EXPECT_TRUE(has(text, part)) << text;
  train::Page page(kComparisonPage, "title");
  add_projection(page, projection);
  EXPECT_TRUE(has(page.finish(), "Projected, with a machine for each replica and shard"));
  EXPECT_EQ(row_of(projection.rows[1])["measured_s"], nullptr);
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
