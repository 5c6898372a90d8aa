// What `convoy plan check` makes of its trainings: tables, verdicts, and sums over recipes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "cli/plan/check_rules.h"
#include "cli/plan/check_table.h"
#include "tests/cli/checked_training.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanCheckOutcomes : public PlanFixture {};

TEST_F(PlanCheckOutcomes, TrainingsThatDidNotReachTheTargetCount) {
  const Checked checked{"optimal", 16, 0.1, 100, 0.5, ""};
  const MeanOutcome both =
      outcome_of({checked_training(true, 100, 50), checked_training(true, 140, 70)});
  EXPECT_DOUBLE_EQ(both.updates, 120);
  EXPECT_DOUBLE_EQ(both.seconds, 60);
  EXPECT_FALSE(both.at_least());
  const MeanOutcome one =
      outcome_of({checked_training(true, 100, 50), checked_training(false, 500, 250)});
  EXPECT_DOUBLE_EQ(one.updates, 300);
  EXPECT_DOUBLE_EQ(one.seconds, 150);
  EXPECT_TRUE(one.known() && one.at_least());
  CheckedTraining lost = checked_training(false, 7, 3);
  lost.diverged = true;
  const MeanOutcome none = outcome_of({checked_training(true, 100, 50), lost});
  EXPECT_FALSE(none.known());
  Checked unknown = checked;
  unknown.rule = "noise", unknown.updates.reset();
  const std::vector<CheckedRule> rules{{checked, both},
                                       {{"four", 64, 0.1, 100, 0.5, ""}, one},
                                       {{"linear", 64, 9, 100, 0.5, "!"}, none},
                                       {unknown, outcome_of({checked_training(true, 48, 24)})}};
  EXPECT_EQ(best_seconds(rules), 24);

  const std::string file = scratch_.path("printed");
  std::FILE* out = std::fopen(file.c_str(), "w");
  print_checks(rules, {{"weak", "of a reason"}}, out);
  std::fclose(out);
  std::istringstream lines(read_text_file(file));
  std::map<std::string, Words> cells;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string rule;
    words >> rule;
    for (std::string word; words >> word;) cells[rule].push_back(word);
  }
  EXPECT_EQ(cells["optimal"],
            (Words{"16", "0.1", "2/2", "100", "120", "+20%", "500", "ms", "500", "ms", "+0%",
                   "50.0", "s", "1", "min", "0", "s", "+20%", "2.5"}));
  EXPECT_EQ(cells["four"],
            (Words{"64", "0.1", "1/2", "100", ">300", ">+200%", "500", "ms", "500", "ms", "+0%",
                   "50.0", "s", ">2", "min", "30", "s", ">+200%", ">6.25"}));
  EXPECT_EQ(cells["linear"], (Words{"64", "9", "1/2", "100", "diverged", "500", "ms", "diverged",
                                    "50.0", "s", "diverged", "-"}));
  EXPECT_EQ(cells["noise"], (Words{"16", "0.1", "1/1", "-", "48", "500", "ms", "500", "ms", "+0%",
                                   "-", "24.0", "s", "1"}));
  EXPECT_TRUE(has(read_text_file(file), "\nlinear: !\nweak is left out: of a reason\n"));
  {
    Rows rows(rows_);
    add_rows(rules, {{"weak", "of a reason"}}, {"loss", 0.5, 3}, rows);
  }
  const std::vector<Json> rows = written();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["metric"], "loss");
  EXPECT_EQ(rows[0]["target"], 0.5);
  EXPECT_EQ(rows[0]["seconds_se"], 10);
  EXPECT_TRUE(rows[0]["verdict"].is_null());  // nothing says how sure the prediction is
  EXPECT_EQ(rows[1]["at_least"], true);
  EXPECT_EQ(rows[1]["times_the_best"], 6.25);
  EXPECT_TRUE(rows[2]["seconds"].is_null() && rows[2]["times_the_best"].is_null());
  EXPECT_EQ(rows[2]["diverged"], 1);
  EXPECT_TRUE(rows[3]["predicted_updates"].is_null());
  EXPECT_EQ(rows[4]["kind"], "left_out");
}

// The mean of n trainings scatters by a root of n less than one of them.
TEST(PlanVerdict, IsWhetherAMeanIsOneThatIsExpected) {
  Checked checked{"optimal", 16, 0.1, 100, 0.5, ""};
  checked.range = {45, 55};
  checked.scatter = 0.2;
  const auto mean_of = [](int runs, double seconds) {
    MeanOutcome outcome;
    outcome.runs = outcome.reached = runs;
    outcome.seconds = seconds;
    return outcome;
  };
  const auto kind = [&](int runs, double seconds) {
    return verdict_of({checked, mean_of(runs, seconds)}).value().kind;
  };
  using Kind = CheckVerdict::Kind;
  const plan::Interval four = verdict_of({checked, mean_of(4, 50)}).value().expected;
  EXPECT_NEAR(four.high, 50 * std::exp(std::hypot(std::log(1.1), 1.96 * 0.2 / 2)), 0.01);
  EXPECT_NEAR(four.low, 50 * std::exp(-std::hypot(std::log(50 / 45.), 1.96 * 0.2 / 2)), 0.01);
  EXPECT_EQ(kind(4, 60), Kind::as_predicted);
  EXPECT_EQ(kind(100, 60), Kind::longer);
  EXPECT_EQ(kind(100, 43), Kind::shorter);
  EXPECT_EQ(kind(1, 35), Kind::as_predicted);
  // Without a prediction or its interval, after a divergence, and for a bound that may be right.
  MeanOutcome bound = mean_of(4, 55);
  bound.reached = 3;
  EXPECT_FALSE(verdict_of({checked, bound}));
  bound.seconds = 500;
  EXPECT_EQ(verdict_of({checked, bound}).value().kind, Kind::longer);
  bound.diverged = 1;
  EXPECT_FALSE(verdict_of({checked, bound}));
  Checked unsure = checked;
  unsure.range.reset();
  EXPECT_FALSE(verdict_of({unsure, mean_of(4, 50)}));

  Checked quarter = checked;
  quarter.rule = "quarter", quarter.batch = 4;
  EXPECT_EQ(verdict_text({{checked, mean_of(4, 50)}, {quarter, mean_of(4, 49)}}, {"loss", 0.5, 2}),
            "to loss 0.5 on 2 workers, means of seconds:\n"
            "  optimal: 50.0 s, expected (95%) 40.0 s to 1 min 2 s: as predicted\n"
            "  quarter: 49.0 s, expected (95%) 40.0 s to 1 min 2 s: as predicted\n"
            "the plan holds: 2 of 2 rules came out as predicted\n"
            "the plan's batch, 16, took 1.02 times as long as that of quarter, which may be chance "
            "(up to 1.32 times)\n");
  const std::string wrong =
      verdict_text({{checked, mean_of(4, 50)}, {quarter, mean_of(4, 90)}}, {"loss", 0.5, 1});
  EXPECT_NE(wrong.find("on 1 worker, "), std::string::npos);
  EXPECT_NE(wrong.find("quarter: 1 min 30 s, expected (95%) 40.0 s to 1 min 2 s: longer than"),
            std::string::npos)
      << wrong;
  EXPECT_NE(wrong.find("the plan does not hold: 1 of 2 rules came out as predicted\n"
                       "the plan's batch, 16, was the soonest of them\n"),
            std::string::npos)
      << wrong;
}

// Rows of one recipe are off together: they count as one of so many.
TEST_F(PlanCheckOutcomes, PredictionsAreSummedUpByRecipe) {
  const auto row = [](const char* rule, int batch, double predicted, double seconds) {
    return Json{{"kind", "check"},
                {"rule", rule},
                {"workers", 1},
                {"batch", batch},
                {"runs", 4},
                {"reached", 4},
                {"diverged", 0},
                {"at_least", false},
                {"predicted_updates", 100},
                {"updates", 100},
                {"predicted_update_s", predicted / 100},
                {"update_s", seconds / 100},
                {"predicted_seconds", predicted},
                {"seconds", seconds},
                {"expected_seconds_low", 0.95 * predicted},
                {"expected_seconds_high", 1.15 * predicted}};
  };
  Json unknown = row("noise", 5, 1, 9);
  unknown["at_least"] = true, unknown["reached"] = 2;
  const Json law{{"kind", "updates"},
                 {"trusted", true},
                 {"points", {{{"batch", 8}, {"reached", 3}}, {{"batch", 128}, {"reached", 3}}}}};
  std::string lines;
  const auto add = [&lines](const char* recipe, const char* stage, const Json& rows) {
    lines +=
        Json{{"recipe", recipe}, {"stage", stage}, {"seconds", 30}, {"rows", rows}}.dump() + "\n";
  };
  add("a", "plan", Json::array({law}));
  add("a", "check 1",
      {row("optimal", 16, 1, 1.1), row("four", 64, 2, 2.4), row("strong", 16, 1, 1.1),
       row("quarter", 4, 1, 1.5), unknown});
  add("b", "plan", Json::array({law}));
  add("b", "check 1", Json::array({row("optimal", 8, 1, 0.9)}));
  test::spill(scratch_.path("rows.jsonl"), lines + "{\"recipe\": \"b");  // it was stopped there
  const std::string command = "python3 '" + test::source_folder() +
                              "/bench/plan/predictions.py' --table --folder '" + scratch_.path() +
                              "' > '" + scratch_.path("table") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string text = read_text_file(scratch_.path("table"));
  EXPECT_TRUE(has(text,
                  "| a | 1 | `four` | 64 | 100 | 100 | 20 ms | 24 ms | 2 s | 2.4 s | +20% | "
                  "outside |\n"))
      << text;
  EXPECT_TRUE(has(text, "| +50% | outside, not between measured batches |\n")) << text;
  EXPECT_FALSE(has(text, "strong")) << "it has the batch of another";
  EXPECT_TRUE(has(text, "  a, 1 worker, noise, batch 5: 2 of 4 trainings reached the target"))
      << text;
  EXPECT_TRUE(has(text, "seconds by recipe: a 60, b 60; together 2.0 minutes\n")) << text;
  // Between those that were measured: 1.1 and 1.2 of one recipe, 0.9 of the other.
  const double mean = (std::log(1.1) + std::log(1.2) + std::log(0.9)) / 3;
  const double a = std::log(1.1) + std::log(1.2) - 2 * mean, b = std::log(0.9) - mean;
  const double error = std::sqrt(2 * (a * a + b * b)) / 3, student = 12.706;
  char expected[256];
  std::snprintf(expected, sizeof expected,
                "batches between measured ones: 3 rows of 2 recipes\n"
                "  time to the target, measured over predicted: %.3f (%.3f to %.3f); 2 above 1\n",
                std::exp(mean), std::exp(mean - student * error), std::exp(mean + student * error));
  EXPECT_TRUE(has(text, expected)) << text << expected;
  EXPECT_TRUE(has(text, "inside the predicted 95% intervals: 1 of 3, 33%\n")) << text;
}

}  // namespace
}  // namespace convoy::cli
