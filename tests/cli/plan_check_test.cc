// convoy plan check: its rules and its trainings.
#include <cmath>
#include <map>

#include "cli/plan/check_rules.h"
#include "convoy/base/error.h"
#include "convoy/plan/choice.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanCheck : public PlanFixture {};

const std::vector<std::string> kAll{"quarter", "optimal", "four", "strong",
                                    "weak",    "linear",  "noise"};

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
