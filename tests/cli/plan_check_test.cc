// convoy plan check: its rules, its trainings, and what it makes of them.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "cli/plan/check_rules.h"
#include "cli/plan/check_table.h"
#include "cli/plan/checks_file.h"
#include "convoy/base/error.h"
#include "convoy/plan/choice.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanCheck : public PlanFixture {
 protected:
  std::string refusal(const std::string& path, const ChecksHeader& header) const {
    return test::message_of<UsageError>([&] { ChecksFile(path, header, true); });
  }
};

const std::vector<std::string> kAll{"quarter", "optimal", "four", "strong",
                                    "weak",    "linear",  "noise"};
const ChecksHeader kHeader{"9f", "train_loss", 0.5, "a processor, 2 cores"};

TEST_F(PlanCheck, RulesSayWhichBatchAndRate) {
  measure();
  const plan::UpdateFit fit = plan::fit_updates(points().updates(0.5));
  const plan::Machine machine = machine_of(0.02);
  const CheckQuestion question{.workers = 2, .largest = kSamples, .noise_batch = 50};
  const CheckList list = list_checks(kAll, fit, {machine, {}, {}}, question);
  const std::int64_t alone = plan::best_batch(fit.law, machine, 1, kSamples).batch;
  const std::int64_t best = plan::best_batch(fit.law, machine, 2, kSamples).batch;
  ASSERT_NE(best, alone);
  std::map<std::string, Checked> by_rule;
  for (const Checked& one : list.checked) by_rule[one.rule] = one;
  EXPECT_EQ(by_rule["quarter"].batch, std::llround(static_cast<double>(best) / 4));
  EXPECT_EQ(by_rule["optimal"].batch, best);
  EXPECT_EQ(by_rule["strong"].batch, alone);
  EXPECT_EQ(by_rule["weak"].batch, 2 * alone);
  EXPECT_EQ(by_rule["linear"].batch, 2 * alone);
  EXPECT_EQ(by_rule["noise"].batch, 50);
  // In this plan each batch has the same best rate.
  EXPECT_DOUBLE_EQ(by_rule["weak"].learning_rate, 0.02);
  EXPECT_DOUBLE_EQ(by_rule["linear"].learning_rate, 0.04);
  EXPECT_TRUE(has(by_rule["linear"].note, "the rate is 2 times that of batch " +
                                              std::to_string(alone) +
                                              "; the prediction is for 0.02"));
  for (const auto& [rule, one] : by_rule) {
    EXPECT_DOUBLE_EQ(one.updates.value(),
                     plan::updates_to_target(fit.law, static_cast<double>(one.batch)))
        << rule;
    EXPECT_DOUBLE_EQ(one.seconds().value(),
                     plan::convergence_seconds(fit.law, machine, one.batch, 2))
        << rule;
  }
  EXPECT_EQ(by_rule["four"].batch, 4 * best);
  EXPECT_TRUE(list.left_out.empty());
  const CheckList few =
      list_checks({"four"}, fit, {machine, {}, {}}, {.workers = 2, .largest = 4 * best - 1});
  EXPECT_TRUE(few.checked.empty());
  EXPECT_EQ(few.left_out.at(0).rule, "four");
  const CheckList many = list_checks({"strong", "weak"}, fit, {machine_of(0), {}, {}},
                                     {.workers = 200, .largest = kSamples});
  ASSERT_EQ(many.left_out.size(), 2u);
  EXPECT_TRUE(has(many.left_out[0].why, "a batch of 32 has no sample for each worker"));
  EXPECT_TRUE(has(many.left_out[1].why, "is more than the data has, 400"));

  EXPECT_EQ(parse_rules("weak,optimal,weak"), (std::vector<std::string>{"weak", "optimal"}));
  EXPECT_TRUE(has(test::message_of<UsageError>([] { parse_rules("optimal,strog"); }),
                  "there is no rule 'strog'; there are quarter, optimal, four, strong, weak, "
                  "linear, noise (did you mean strong?)"));
}

// As the plan itself, which counts on what was measured then.
TEST_F(PlanCheck, PredictsWithoutALawWhatThePlanDoes) {
  measure();
  plan::PlanPoints all = points();
  for (plan::PointRun& run : all.runs) {
    const double off = 1 + 0.05 * (static_cast<double>(run.seed) - 2);
    run.updates = std::llround(40000 * std::pow(static_cast<double>(run.batch), -1.3) * off);
    run.reached = {{0.5, run.updates}};
  }
  const plan::UpdateFit fit = plan::fit_updates(all.updates(0.5));
  ASSERT_FALSE(fit.trusted);
  const plan::Machine machine = machine_of(0.02);
  const CheckList list = list_checks({"quarter", "optimal", "noise"}, fit, {machine, {}, {}},
                                     {.workers = 2, .largest = kSamples, .noise_batch = 300});
  const plan::BatchChoice choice = plan::choose_batch(fit, {machine, {}, {}}, 2, kSamples);
  EXPECT_EQ(list.checked[1].batch, choice.batch);
  EXPECT_DOUBLE_EQ(list.checked[1].seconds().value(), choice.seconds.value);
  EXPECT_DOUBLE_EQ(list.checked[0].updates.value(), fit.envelope[3].updates);  // batch 32
  EXPECT_FALSE(list.checked[2].updates || list.checked[2].seconds());
  EXPECT_TRUE(list.checked[2].update_s);
}

CheckedTraining training(bool reached, std::int64_t updates, double seconds) {
  CheckedTraining one{.workers = 1, .batch = 16, .learning_rate = 0.1, .seed = 1001};
  one.reached = reached, one.updates = updates, one.seconds = seconds, one.update_s = 0.5;
  return one;
}

TEST_F(PlanCheck, TrainingsThatDidNotReachTheTargetCount) {
  const Checked checked{"optimal", 16, 0.1, 100, 0.5, ""};
  const MeanOutcome both = outcome_of({training(true, 100, 50), training(true, 140, 70)});
  EXPECT_DOUBLE_EQ(both.updates, 120);
  EXPECT_DOUBLE_EQ(both.seconds, 60);
  EXPECT_FALSE(both.at_least());
  const MeanOutcome one = outcome_of({training(true, 100, 50), training(false, 500, 250)});
  EXPECT_DOUBLE_EQ(one.updates, 300);
  EXPECT_DOUBLE_EQ(one.seconds, 150);
  EXPECT_TRUE(one.known() && one.at_least());
  CheckedTraining lost = training(false, 7, 3);
  lost.diverged = true;
  const MeanOutcome none = outcome_of({training(true, 100, 50), lost});
  EXPECT_FALSE(none.known());
  Checked unknown = checked;
  unknown.rule = "noise", unknown.updates.reset();
  const std::vector<CheckedRule> rules{{checked, both},
                                       {{"four", 64, 0.1, 100, 0.5, ""}, one},
                                       {{"linear", 64, 9, 100, 0.5, "!"}, none},
                                       {unknown, outcome_of({training(true, 48, 24)})}};
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

TEST_F(PlanCheck, FileKeepsWhatIsFinished) {
  const std::string path = scratch_.path("checks.jsonl");
  const CheckedTraining reached = training(true, 100, 50);
  CheckedTraining censored = training(false, 400, 200);
  censored.seed = 1002;
  {
    ChecksFile file(path, kHeader, false);
    EXPECT_TRUE(has(refusal(path, kHeader), "is in use by another process"));
    file.add(reached);
    file.add(censored);
  }
  std::ofstream(path, std::ios::app) << R"({"kind": "training", "wor)";
  {
    ChecksFile file(path, kHeader, true);
    ASSERT_NE(file.find(reached, 1000), nullptr);
    EXPECT_EQ(file.find(reached, 1000)->seconds, 50);
    EXPECT_NE(file.find(censored, 400), nullptr);
    EXPECT_EQ(file.find(censored, 401), nullptr);  // it would go on
    CheckedTraining other = reached;
    other.workers = 2;
    EXPECT_EQ(file.find(other, 1), nullptr);
    file.add(other);
  }
  EXPECT_NE(ChecksFile(path, kHeader, true).find(reached, 1000), nullptr);
  EXPECT_TRUE(has(test::message_of<UsageError>([&] { ChecksFile(path, kHeader, false); }),
                  "already: add --resume to go on with them"));
  const auto other = [](const auto& change) {
    ChecksHeader header = kHeader;
    change(header);
    return header;
  };
  EXPECT_TRUE(has(refusal(path, other([](ChecksHeader& h) { h.fingerprint = "0"; })),
                  "has trainings of another recipe, or other data; move it away"));
  EXPECT_TRUE(has(refusal(path, other([](ChecksHeader& h) { h.target = 0.3; })),
                  "has trainings to train_loss 0.5, not to train_loss 0.3"));
  EXPECT_TRUE(has(refusal(path, other([](ChecksHeader& h) { h.machine = "h0:1"; })),
                  "has trainings on a processor, 2 cores, not on h0:1"));
  // Those of before are on the machine of the first line, and so it may have GPUs.
  EXPECT_NE(ChecksFile(path, other([](ChecksHeader& h) { h.machine += ", 1 GPU X"; }), true)
                .find(reached, 1000),
            nullptr);
  const std::string whole = read_text_file(path);
  std::ofstream(path, std::ios::app) << "{\"kind\": \"training\"}\n";
  EXPECT_TRUE(has(refusal(path, kHeader), "checks.jsonl:5: no line of `convoy plan check`"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.rfind(from);
    EXPECT_NE(at, std::string::npos) << from;
    test::spill(path, text.replace(at, from.size(), to));
    return refusal(path, kHeader);
  };
  for (const char* updates : {"-5", "1e300", "1.5"}) {
    EXPECT_TRUE(has(changed("\"updates\":100", "\"updates\":" + std::string(updates)),
                    "checks.jsonl:4: no line of `convoy plan check`: updates has to be a whole "
                    "number from 0 on"))
        << updates;
  }
  EXPECT_TRUE(
      has(changed("\"batch\":16", "\"batch\":0"), "batch has to be a whole number from 1 on"));
  EXPECT_TRUE(has(changed("\"seconds\":50.0", "\"seconds\":-1"), "seconds has to be 0 or more"));
}

// Rows of one recipe are off together: they count as one of so many.
TEST_F(PlanCheck, PredictionsAreSummedUpByRecipe) {
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

// First between two of them, then between four.
TEST_F(PlanCheck, FileGoesOnWithMoreHosts) {
  const std::string path = scratch_.path("checks.jsonl");
  const auto of = [](const std::string& machine) {
    return ChecksHeader{"9f", "train_loss", 0.5, machine};
  };
  CheckedTraining two = training(true, 100, 50), four = two;
  two.workers = 2, two.machine = "hosts a:1,b:1";
  four.workers = 4, four.machine = "hosts a:1,b:1,c:1,d:1";
  ChecksFile(path, of(two.machine), true).add(two);
  {
    ChecksFile file(path, of(four.machine), true);
    EXPECT_NE(file.find(two, 1000), nullptr);
    file.add(four);
  }
  CheckedTraining others = four;
  others.machine = "hosts a:1,b:1,e:1,f:1";
  EXPECT_TRUE(has(refusal(path, of("hosts a:1,c:1")), "on hosts a:1,b:1, not on hosts a:1,c:1"));
  const ChecksFile file(path, of(others.machine), true);
  EXPECT_NE(file.find(two, 1000), nullptr);
  EXPECT_NE(file.find(four, 1000), nullptr);
  EXPECT_EQ(file.find(others, 1000), nullptr);
}

// Made-up points predict nothing of the trainings: what was predicted is the library's all the
// same.
TEST_F(PlanCheck, TrainsComparesAndGoesOn) {
  measure();
  const plan::UpdateFit fit = plan::fit_updates(points().updates(1.5));
  const plan::Machine machine = machine_of(0.02);
  const auto check = [this](Words more) {
    more.insert(more.begin(), {"--level", "1.5", "--seeds", "1"});
    return words("check", more);
  };
  const auto rows = rows_of(check({}));
  ASSERT_EQ(rows.size(), 3u);
  const std::int64_t best = plan::best_batch(fit.law, machine, 1, kSamples).batch;
  EXPECT_EQ(rows[0]["batch"], std::llround(0.25 * static_cast<double>(best)));
  EXPECT_EQ(rows[1]["batch"], best);
  EXPECT_EQ(rows[2]["batch"], 4 * best);
  double least = INFINITY;
  for (const Json& row : rows) {
    EXPECT_EQ(row["runs"], 1);
    EXPECT_EQ(row["reached"], 1);
    EXPECT_GE(row["updates"], 1);
    EXPECT_GT(row["update_s"], 0);
    EXPECT_GT(row["seconds"], 0);
    EXPECT_GE(row["times_the_best"], 1);
    least = std::min(least, row["times_the_best"].get<double>());
  }
  EXPECT_EQ(least, 1);
  EXPECT_FALSE(std::filesystem::exists(plan_ + "/trials"));

  EXPECT_TRUE(has(complaint(check({})), "already: add --resume to go on with them"));
  EXPECT_TRUE(has(complaint(words("check", {"--level", "0.5", "--resume"})),
                  "has trainings to train_loss 1.5, not to train_loss 0.5"));
  // One worker's best batch is that of both rules: one training more, with the batch of noise.
  const std::string before = read_text_file(plan_ + "/checks.jsonl");
  const auto more =
      rows_of(check({"--resume", "--rules", "strong,optimal,noise", "--noise-batch", "40"}));
  ASSERT_EQ(more.size(), 3u);
  for (const char* key : {"updates", "seconds", "update_s", "learning_rate"}) {
    EXPECT_EQ(more[0][key], rows[1][key]);
    EXPECT_EQ(more[1][key], rows[1][key]);
  }
  EXPECT_EQ(more[2]["batch"], 40);
  const std::string after = read_text_file(plan_ + "/checks.jsonl");
  EXPECT_EQ(after.substr(0, before.size()), before);
  EXPECT_EQ(count(after.substr(before.size()), "\n"), 1);
}

TEST_F(PlanCheck, TrainsOnHosts) {
  measure();
  const Words check = words("check", {"--level", "1.5", "--seeds", "1", "--rules", "optimal"});
  const auto on = [&check](const std::string& hosts, const char* workers) {
    Words all = check;
    all.insert(all.end(), {"--hosts", hosts, "--workers", workers, "--resume"});
    return all;
  };
  EXPECT_TRUE(has(complaint(on("localhost,localhost", "3")),
                  "--workers 3: there is room for 2 on hosts localhost:1,localhost:1"));
  // Whose the predictions are is said by machine.toml, or, if that was given, not at all.
  plan::Machine timed = machine_of(0.02);
  timed.name = "hosts localhost:1,other:1";
  test::spill(plan_ + "/machine.toml", plan::to_toml(timed));
  const auto rows = rows_of(on("localhost:2", "2"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["kind"], "other_machine");
  EXPECT_EQ(rows[0]["predicted_for"], "hosts localhost:1,other:1");
  EXPECT_EQ(rows[0]["trained_on"], "hosts localhost:2");
  EXPECT_EQ(rows[1]["workers"], 2);
  EXPECT_EQ(rows[1]["reached"], 1);
  timed.name = "hosts localhost:2,other:1";
  test::spill(plan_ + "/machine.toml", plan::to_toml(timed));
  EXPECT_EQ(rows_of(on("localhost:2", "2")).size(), 1u);  // the first of them
  EXPECT_TRUE(has(complaint(on("localhost:1", "1")),
                  "has trainings on hosts localhost:2, not on hosts localhost:1"));
}

TEST_F(PlanCheck, SaysWhatWasNotReachedAndWhatIsWrong) {
  measure();
  const JobResult result = Job(words("check", {"--level", "0.5", "--seeds", "1", "--longest",
                                               "0.01", "--rules", "optimal"}))
                               .finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.out, ": not reached in ") && has(result.out, ">")) << result.out;
  EXPECT_TRUE(
      has(complaint(words("check", {"--workers", "4097"})), "--workers 4097: there is room for "));
  EXPECT_TRUE(has(complaint(words("check", {"--rules", "noise"})), "needs --noise-batch N"));
  EXPECT_TRUE(has(complaint(words("check", {"--noise-batch", "8"})), "add it there"));
}

}  // namespace
}  // namespace convoy::cli
