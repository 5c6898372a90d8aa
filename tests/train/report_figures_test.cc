// What a report says in numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/train/report.h"
#include "tests/base/scratch.h"
#include "tests/train/report_rows.h"
#include "train/report/run_record.h"

namespace convoy::train {
namespace {

using test::spill;

TEST_F(ReportTest, Scaling) {
  std::vector<std::string> runs;
  for (const int ranks : {1, 2, 4}) {
    const std::string folder = usual("n" + std::to_string(ranks), 0.1 / std::pow(ranks, 0.9));
    const std::string metrics = test::slurp(folder + "/metrics.jsonl");
    spill(folder + "/metrics.jsonl", run_row_on(ranks) + metrics.substr(metrics.find('\n') + 1));
    runs.push_back(folder);
  }
  const std::string page = make_report(runs);
  EXPECT_TRUE(has(page, "Scaling of lenet"));
  EXPECT_TRUE(has(page, "strong scaling"));
  EXPECT_TRUE(has(page, "<td>1.87</td><td>2.00</td><td>93%</td>"));
  EXPECT_TRUE(has(page, "<td>3.48</td><td>4.00</td><td>87%</td>"));
}

// A row around a parameter server may have no loss.
TEST_F(ReportTest, TheLastLossIsTheLastOneThatIsKnown) {
  const std::string folder = usual("downpour", 0.1), file = folder + "/metrics.jsonl";
  spill(file, replaced(test::slurp(file), step_row(100, 0.02, 0.1),
                       replaced(step_row(100, 0.02, 0.1), std::to_string(0.02), "null")));
  const Report report({folder});
  EXPECT_NEAR(report.figures().runs[0].loss, 2.0 / 99, 1e-6);
  EXPECT_TRUE(has(make_report({folder}), "0.0202"));
}

TEST_F(ReportTest, FiguresAreThoseOfThePage) {
  const Report report({usual("slow", 0.2, 0.95), usual("fast", 0.1)});
  const ReportFigures figures = report.figures();
  ASSERT_EQ(figures.runs.size(), 2u);
  const RunFigures& fast = figures.runs[1];
  EXPECT_EQ(fast.name, "fast");
  EXPECT_EQ(fast.state, "done");
  EXPECT_EQ(fast.steps, 100);
  EXPECT_EQ(fast.planned_steps, 100);
  EXPECT_EQ(fast.parts, 1);
  EXPECT_DOUBLE_EQ(fast.elapsed_s, 10);
  EXPECT_EQ(fast.ranks, 2);
  EXPECT_EQ(fast.parameters, 431080);
  EXPECT_EQ(fast.unit, "images");
  EXPECT_NEAR(fast.rate, 1280, 1e-9);
  EXPECT_DOUBLE_EQ(fast.loss, 0.02);
  EXPECT_EQ(fast.evaluated_at, 100);
  EXPECT_EQ(fast.final, (std::map<std::string, double>{{"loss", 0.5}, {"top1", 0.98}}));
  EXPECT_EQ(fast.best_metric, "top1");
  EXPECT_EQ(fast.best, 0.98);
  EXPECT_EQ(fast.best_step, 100);
  ASSERT_FALSE(figures.levels.empty());
  EXPECT_EQ(figures.levels.size() % 2, 0u);
  const LevelTime& slow_at_last = figures.levels[figures.levels.size() - 2];
  const LevelTime& fast_at_last = figures.levels.back();
  EXPECT_EQ(slow_at_last.run, 0u);
  EXPECT_EQ(slow_at_last.step, -1);
  EXPECT_TRUE(std::isnan(slow_at_last.elapsed_s));
  EXPECT_EQ(fast_at_last.level, 0.98);
  EXPECT_EQ(fast_at_last.step, 100);
  EXPECT_DOUBLE_EQ(fast_at_last.elapsed_s, 10);
  EXPECT_TRUE(figures.speed_ups.empty()) << "both have two ranks";
  EXPECT_TRUE(Report({usual("alone")}).figures().levels.empty());
}

TEST_F(ReportTest, RunsWithoutTheMetricThatMattersStandBesideOthers) {
  const std::string begun = make_run("begun", run_row());
  const std::string page = make_report({begun, usual("whole")});
  EXPECT_TRUE(has(page, "Time to top-1"));
  EXPECT_TRUE(has(page, "<span class=\"soft\">–</span>"));
  // Trained without a validation set, as well: nothing to compare.
  const std::string bare = make_run("bare", run_row() + step_row(1, 1));
  EXPECT_FALSE(has(make_report({bare, begun}), "Time to"));
  EXPECT_EQ(read_run(bare).best, "");
}

// What a run did on other ranks is not what it does on those it has.
TEST_F(ReportTest, ARateIsThatOfTheRanksBesideIt) {
  const std::string one = make_run("one", run_row_on(1) + steps_at(1, 50, 0.1));
  const std::string moved = make_run("moved", run_row_on(1) + steps_at(1, 60, 0.1) +
                                                  run_row_on(4, 1, 40) + steps_at(41, 52, 0.05));
  const ReportFigures figures = Report({one, moved}).figures();
  EXPECT_NEAR(figures.runs[1].rate, 2560, 1e-9);
  ASSERT_EQ(figures.speed_ups.size(), 2u);
  EXPECT_EQ(figures.speed_ups[1].ranks, 4);
  EXPECT_NEAR(figures.speed_ups[1].speed_up, 2, 1e-9);
  EXPECT_NEAR(figures.speed_ups[1].efficiency, 0.5, 1e-9);
  // Resumed on as many: all of it counts.
  const std::string same =
      make_run("same", run_row() + steps_at(1, 40, 0.1) + run_row(40) + steps_at(41, 60, 0.05));
  EXPECT_NEAR(Report({same}).figures().runs[0].rate, 1280, 1e-9);
  // Nothing yet on these.
  const std::string begun =
      make_run("begun", run_row_on(1) + steps_at(1, 40, 0.1) + run_row_on(4, 1, 40));
  EXPECT_TRUE(std::isnan(Report({begun}).figures().runs[0].rate));
}

TEST_F(ReportTest, SaysWhereRanksHaveOtherNumbersOfThreads) {
  const auto run = [this](const std::string& name, int ranks, int threads) {
    return make_run(name, run_row_on(ranks, threads) + steps_at(1, 50, 0.1));
  };
  const std::string one = run("one", 1, 4), two = run("two", 2, 4), four = run("four", 4, 1);
  EXPECT_FALSE(has(make_report({one, two}), "number of threads"));
  EXPECT_FALSE(has(make_report({one, two}), "numbers of threads"));
  EXPECT_TRUE(has(make_report({one, four}), "All runs have the same number of threads"));
  EXPECT_TRUE(has(make_report({one, two, four}), "Ranks have different numbers of threads"));
}

// The first ten updates, and not rows, which may be of many updates each.
TEST_F(ReportTest, TheFirstTenUpdatesDoNotCountForTheRate) {
  const auto rate = [this](const std::string& metrics) {
    return Report({make_run("run", run_row() + metrics)}).figures().runs[0].rate;
  };
  EXPECT_NEAR(rate(steps_at(1, 10, 0.4) + steps_at(11, 15, 0.1)), 1280, 1e-9);
  EXPECT_NEAR(rate(steps_at(1, 10, 0.4)), 320, 1e-9) << "there are no others";
  EXPECT_NEAR(rate(steps_at(100, 1500, 0.1, 100) + steps_at(1600, 2600, 0.4, 100)), 1280, 1e-9)
      << "15 rows against 11";
}

TEST_F(ReportTest, HowARunEndedIsWhatItsRowSays) {
  const auto page = [this](const std::string& metrics) {
    return make_report({make_run("run", run_row() + steps_at(1, 98, 0.1) + metrics)});
  };
  // 100 steps were an estimate.
  EXPECT_TRUE(has(page(end_row(98, "done")), "done, 98 steps"));
  EXPECT_TRUE(has(page(end_row(98, "stopped")), "stopped after 98 of 100 steps<"));
  EXPECT_TRUE(has(page(end_row(98, "target")), "reached its target after 98 of 100 steps"));
  EXPECT_TRUE(has(page(""), "ended after 98 of 100 steps: stopped, failed or killed"));
  EXPECT_TRUE(
      has(page(steps_at(99, 105, 0.1)), "ended after 105 of 100 steps; how is not recorded"));
  // It went on, and was killed then.
  EXPECT_TRUE(has(page(end_row(98, "stopped") + run_row(98) + steps_at(99, 99, 0.1)),
                  "ended after 99 of 100 steps: stopped, failed or killed"));
}

}  // namespace
}  // namespace convoy::train
