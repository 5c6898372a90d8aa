// What convoy plan makes of measurements, against the library's own values.
#include <cmath>
#include <iterator>
#include <map>

#include "cli/plan/answers.h"
#include "cli/plan/changes.h"
#include "cli/plan/measure.h"
#include "cli/plan/report.h"
#include "convoy/base/error.h"
#include "convoy/plan/hardware.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanAnswers : public PlanFixture {};

TEST_F(PlanAnswers, MachineSaysWhatTheLibraryDoes) {
  measure();
  const plan::UpdateLaw law = plan::fit_updates(points().updates(0.5)).law;
  const plan::Machine machine = machine_of(0.02);
  const auto rows =
      rows_of(words("machine", {"--batch", "128", "--workers", "4", "--factor", "2"}));
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0]["kind"], "now");
  EXPECT_DOUBLE_EQ(rows[0]["seconds"], plan::convergence_seconds(law, machine, 128, 4));
  EXPECT_DOUBLE_EQ(rows[0]["best_batch"], plan::optimal_batch(law, machine, 4));
  EXPECT_DOUBLE_EQ(rows[0]["best_seconds"], plan::optimal_seconds(law, machine, 4));
  EXPECT_LT(rows[0]["seconds_low"], rows[0]["seconds"]);
  EXPECT_GT(rows[0]["seconds_high"], rows[0]["seconds"]);

  // What each change means, written out.
  std::map<std::string, plan::Machine> changed{{"processor", machine},
                                               {"knee", machine},
                                               {"bandwidth", machine},
                                               {"latency", machine},
                                               {"workers", machine}};
  changed["processor"].seconds_per_sample /= 2;
  changed["knee"].knee_samples /= 2;
  changed["bandwidth"].communication.delta_s /= 2;
  changed["latency"].communication.latency_s /= 2;
  const auto what = plan::what_if(law, machine, 4, 2);
  ASSERT_EQ(rows.size(), 1 + what.size());
  EXPECT_EQ(what.size(), changed.size());
  for (std::size_t i = 0; i < what.size(); ++i) {
    const Json& row = rows[i + 1];
    const std::string change = row["change"];
    SCOPED_TRACE(change);
    EXPECT_EQ(change, what[i].change);
    EXPECT_DOUBLE_EQ(row["best_batch"], what[i].batch);
    EXPECT_DOUBLE_EQ(row["best_seconds"], what[i].seconds);
    EXPECT_DOUBLE_EQ(row["best_speedup"], what[i].speedup);
    // The machine is given, so that how much of the law is right is all that is not sure.
    EXPECT_DOUBLE_EQ(row["speedup_low"], row["speedup"]);
    EXPECT_DOUBLE_EQ(row["speedup_high"], row["speedup"]);
    EXPECT_LE(row["best_speedup_low"], row["best_speedup"]);
    EXPECT_GE(row["best_speedup_high"], row["best_speedup"]);
    const int workers = change == "workers" ? 8 : 4;
    EXPECT_DOUBLE_EQ(row["seconds"],
                     plan::convergence_seconds(law, changed.at(change), 128, workers));
  }
}

// As the plan does whose times follow no model.
TEST_F(PlanAnswers, MachineTakesTheTableThatThePlanTook) {
  measure();
  plan::Machine machine = machine_of(0.02);
  machine.table = {{1, 0.004}, {8, 0.006}, {16, 0.03}, {128, 0.2}};
  test::spill(plan_ + "/machine.toml", plan::to_toml(machine));
  const plan::UpdateFit fit = plan::fit_updates(points().updates(0.5));
  const plan::BatchChoice choice = plan::choose_batch(fit, {machine, {}, {}}, 4, kSamples);
  const std::string prices = scratch_.path("prices.toml");
  test::spill(prices, "budget = 30000\n[compute]\nprice = 1500\n[bandwidth]\nprice = 4000\n");
  const Words more{"--batch", std::to_string(choice.batch), "--workers", "4", "--cost", prices};
  const JobResult result = Job(words("machine", more)).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::vector<Json> rows = written();
  EXPECT_EQ(rows[0]["best_batch"], choice.batch);
  EXPECT_DOUBLE_EQ(rows[0]["seconds"], choice.seconds.value);
  EXPECT_DOUBLE_EQ(rows[0]["best_seconds"], choice.seconds.value);
  std::vector<std::string> changes;
  for (const Json& row : rows) {
    if (row["kind"] == "change") changes.push_back(row["change"]);
  }
  std::sort(changes.begin(), changes.end());
  EXPECT_EQ(changes, (std::vector<std::string>{"bandwidth", "latency", "processor", "workers"}));
  EXPECT_TRUE(has(result.out, "in place of its table of times")) << result.out;
}

// All that is said of a machine has it, and what goes on from the folder draws it as the plan did.
TEST_F(PlanAnswers, WhatWorkersLoseToEachOtherIsSaidAndCounted) {
  measure();
  {
    PlanFolder folder(plan_, planned(), true);
    const auto alone = [](double samples) { return 1e-3 * std::max(samples, 8.0); };
    for (const double factor : {0.99, 1.0, 1.01}) {
      for (const std::int64_t samples : {1, 4, 16, 64, 128})
        folder.add(plan::TimeSample{samples, alone(static_cast<double>(samples)) * factor});
      for (const std::int64_t batch : {16, 128}) {
        const double update = 1.1 * alone(static_cast<double>(batch) / 2) + 0.003;
        folder.add(plan::CommunicationSample{2, 1e-3, batch, update * (2 - factor), 2});
      }
    }
  }
  const plan::PlanPoints all = points();
  const PlannedMachine fitted = fit_machine(all);
  const plan::Machine& machine = fitted.machine.machine;
  ASSERT_EQ(machine.contention.size(), 1u);
  EXPECT_NEAR(machine.contention[0].part, 0.1, 1e-3);
  EXPECT_NEAR(machine.communication.delta_s, 0.003, 1e-4);
  const Answers answers = answer(all, fitted, {1, 2}, kSamples);
  const std::string file = scratch_.path("printed");
  std::FILE* out = std::fopen(file.c_str(), "w");
  print(answers, out);
  std::fclose(out);
  const std::string text = read_text_file(file);
  const std::size_t line = text.find("\nworkers that share a host compute longer: 10% (");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_TRUE(has(text.substr(line + 1, text.find('\n', line + 1) - line), " with 2 workers"))
      << text;
  const std::string page = make_plan_report({"bars", all, answers, kSamples});
  EXPECT_TRUE(has(page, "workers that share a host compute longer"));
  {
    Rows rows(rows_);
    add_rows(answers, "convoy train", rows);
  }
  const Json row = written()[1]["contention"].at(0);
  EXPECT_EQ(row["workers"], 2);
  EXPECT_DOUBLE_EQ(row["part"], machine.contention[0].part);
  EXPECT_LT(row["part_low"], row["part"]);
  EXPECT_GT(row["part_high"], row["part"]);

  test::spill(plan_ + "/machine.toml", plan::to_toml(machine));
  const Json now = rows_of(words("machine", {"--batch", "64", "--workers", "2"})).at(0);
  const auto predicted =
      plan::predicted_seconds(plan::fit_updates(all.updates(0.5)), fitted.machine, 64, 2);
  EXPECT_DOUBLE_EQ(now["seconds"], predicted->value);
  EXPECT_DOUBLE_EQ(now["seconds_low"], predicted->interval.low);
  EXPECT_DOUBLE_EQ(now["seconds_high"], predicted->interval.high);
}

TEST_F(PlanAnswers, MachineWeighsPrices) {
  measure();
  const std::string prices = scratch_.path("prices.toml");
  test::spill(prices,
              "budget = 30000\nmost_workers = 32\n[compute]\nprice = 1500\npower = 1.2\n"
              "slowest = 0.5\nfastest = 2\n[bandwidth]\nprice = 4000\n");
  const plan::UpdateLaw law = plan::fit_updates(points().updates(0.5)).law;
  const plan::Machine machine = machine_of(0.02);
  const plan::Prices library{
      .compute = [](double workers,
                    double gamma) { return 1500 * workers * std::pow(1e-3 / gamma, 1.2); },
      .bandwidth = [](double delta) { return 4000 * 0.02 / delta; }};
  const auto rows =
      rows_of(words("machine", {"--batch", "128", "--workers", "4", "--cost", prices}));
  const Json& row = rows.back();
  EXPECT_EQ(row["kind"], "design");
  EXPECT_NEAR(row["cost"], 4 * 1500 + 4000, 1e-6);
  const plan::Balance balance = plan::balance(law, machine, 4, library);
  EXPECT_NEAR(row["saved_by_workers"], balance.saved_by_workers, 1e-9);
  EXPECT_NEAR(row["saved_by_bandwidth"], balance.saved_by_bandwidth, 1e-9);
  EXPECT_NEAR(row["saved_by_processors"], balance.saved_by_processors.value(), 1e-9);
  const plan::Design design = plan::best_design(law, machine, library, 30000, 32, {0.5, 2});
  EXPECT_NEAR(row["processor_factor"], design.processor, 1e-6);
  EXPECT_EQ(row["workers"], design.workers);
  EXPECT_NEAR(row["seconds"], design.seconds, 1e-9 * design.seconds);
  EXPECT_LE(row["design_cost"], 30000.001);

  const auto refused = [&](const std::string& text) {
    test::spill(prices, text);
    return test::message_of<UsageError>([&] { read_prices(prices); });
  };
  EXPECT_TRUE(has(refused("budget = 1\n"), "there is no table [compute]"));
  EXPECT_TRUE(has(refused("[compute]\nprice = 1\n[bandwidth]\nprice = 1\n"), "budget is missing"));
  EXPECT_TRUE(has(refused("budget = -1\n"), "prices.toml:1: budget has to be a number above 0"));
  for (const char* wrong : {"1e12", "64.7", "0"})
    EXPECT_TRUE(has(refused("budget = 1\nmost_workers = " + std::string(wrong) + "\n"),
                    "prices.toml:2: most_workers has to be a whole number from 1 to 100000"));
  EXPECT_TRUE(has(refused("budget = 1\n[compute]\nprce = 1\n"), "did you mean compute.price?"));
  EXPECT_TRUE(has(refused("budget ="), "prices.toml:1: "));
  EXPECT_TRUE(has(refused("budget = 1\n[compute]\nprice = 1\nfastest = 0.5\n"),
                  "prices.toml:4: compute.fastest has to be at least 1"));
  EXPECT_TRUE(
      has(refused("budget = 1\n[compute]\nprice = 1\n[bandwidth]\nprice = 1\nslowest = 1\n"),
          "there is no key bandwidth.slowest"));
}

TEST_F(PlanAnswers, MachineRefusesWhatMakesNoSense) {
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64"})), "there are no points in "));
  measure();
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "4", "--workers", "8"})),
                  "--workers 8 is more than --batch 4: each worker needs a sample"));
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "401"})),
                  "--batch 401 is more than the data has: 400 samples"));
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64", "--level", "0.7"})), "0.7"));
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64", "--level", "1.5,0.5"})),
                  "--level: '1.5,0.5' is no number; it takes one"));
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64", "--set", "optimizer.momentum=0"})),
                  "of another recipe: optimizer.momentum is 0.0, there it is 0.9"));
  std::filesystem::remove(plan_ + "/machine.toml");
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64"})), "there is no machine.toml"));
  std::string other = read_text_file(plan_ + "/points.jsonl");
  const std::string version = "\"version\":1";
  const std::size_t at = other.find(version);
  ASSERT_NE(at, std::string::npos);
  test::spill(plan_ + "/points.jsonl", other.replace(at, version.size(), "\"version\":2"));
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64"})), "version"));
}

TEST_F(PlanAnswers, ACommandThatFailsLeavesTheFileOfRows) {
  measure();
  const std::string before = "{\"convoy\":\"table\",\"kind\":\"of another day\"}\n";
  test::spill(rows_, before);
  complaint(words("machine", {"--batch", "401"}));
  EXPECT_EQ(read_text_file(rows_), before);
  EXPECT_EQ(rows_of(words("machine", {"--batch", "64"}))[0]["kind"], "now");
  std::filesystem::remove(rows_);
  complaint(words("machine", {"--batch", "401"}));
  EXPECT_FALSE(std::filesystem::exists(rows_));
}

// What a machine is that has tables for both, in each way of saying so.
TEST_F(PlanAnswers, TablesAreShownAsTables) {
  measure();
  plan::Machine machine;
  machine.source = "given";
  machine.table = {{1, 0.002}, {400, 0.4}};
  machine.communication.kind = plan::CommunicationKind::table;
  machine.communication.table = {{2, 0.01}, {8, 0.014}};
  const PlannedMachine planned{{machine, {}, {}}, std::nullopt, std::nullopt};
  const Answers answers = answer(points(), planned, {1, 4}, kSamples);
  ASSERT_FALSE(answers.levels.empty());
  const std::string compute = "2.00 ms for 1 sample to 400 ms for 400 samples";
  const std::string network = "10.0 ms between 2 workers to 14.0 ms between 8 workers";
  const std::string file = scratch_.path("printed");
  std::FILE* out = std::fopen(file.c_str(), "w");
  print(answers, out);
  std::fclose(out);
  const std::string text = read_text_file(file);
  EXPECT_TRUE(has(text, "update on one worker: " + compute + "\n")) << text;
  EXPECT_TRUE(has(text, "computation does not hide: " + network + "\n")) << text;
  const std::string page = make_plan_report({"bars", points(), answers, kSamples});
  EXPECT_TRUE(has(page, compute) && has(page, network));
  {
    Rows rows(rows_);
    add_rows(answers, "convoy train", rows);
  }
  const Json answer = written()[0], row = written()[1];
  EXPECT_EQ(answer["kind"], "answer");
  EXPECT_EQ(answer["command"], "convoy train");
  EXPECT_EQ(row["seconds_by_samples"], Json::parse("[[1, 0.002], [400, 0.4]]"));
  EXPECT_EQ(row["seconds_by_workers"], Json::parse("[[2, 0.01], [8, 0.014]]"));
  EXPECT_FALSE(row.contains("delta_s") || row.contains("seconds_per_sample"));
}

// Of one level a batch where no run got there; of the other, updates that fall to nothing.
TEST_F(PlanAnswers, WhatHasNoNumberIsShownAsNone) {
  measure();
  plan::PlanPoints all = points();
  for (plan::PointRun& run : all.runs) {
    const double off = 1 + 0.05 * (static_cast<double>(run.seed) - 2);
    run.updates = std::llround(40000 * std::pow(static_cast<double>(run.batch), -1.3) * off);
    run.reached = {{0.5, run.updates}};
    if (run.batch > 4) run.reached.emplace_back(1.5, std::max<std::int64_t>(run.updates / 2, 1));
  }
  const PlannedMachine machine{{machine_of(0.02), {}, {}}, std::nullopt, std::nullopt};
  const Answers answers = answer(all, machine, {2}, kSamples);
  ASSERT_EQ(answers.levels.size(), 2u);
  const std::string file = scratch_.path("printed");
  std::FILE* out = std::fopen(file.c_str(), "w");
  print(answers, out);
  std::fclose(out);
  std::istringstream lines(read_text_file(file));
  std::vector<Words> of_4;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Words row{std::istream_iterator<std::string>(words), {}};
    EXPECT_EQ(std::count(row.begin(), row.end(), "nan"), 0) << line;
    if (!row.empty() && row[0] == "4") of_4.push_back(row);
  }
  ASSERT_EQ(of_4.size(), 2u);
  EXPECT_EQ(of_4[0][3], "0");
  EXPECT_EQ(of_4[0][4], "-");
  EXPECT_NE(of_4[1][4], "-");

  std::filesystem::remove_all(plan_);
  {
    PlanFolder folder(plan_, planned(), false);
    for (const plan::PointRun& run : all.runs) folder.add(run, {});
  }
  test::spill(plan_ + "/machine.toml", plan::to_toml(machine_of(0.02)));
  // What is known is how long updates take with a batch that was measured.
  const std::vector<Json> rows = rows_of(words("machine", {"--batch", "64"}));
  EXPECT_EQ(rows[0]["trusted"], false);
  EXPECT_TRUE(rows[0]["best_batch"].is_null() && rows[0]["best_seconds"].is_null());
  ASSERT_GT(rows.size(), 2u);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_TRUE(rows[i]["best_seconds"].is_null() && rows[i]["best_speedup"].is_null()) << rows[i];
    EXPECT_DOUBLE_EQ(rows[i]["speedup"],
                     rows[0]["seconds"].get<double>() / rows[i]["seconds"].get<double>());
  }
  EXPECT_TRUE(
      has(complaint(words("machine", {"--batch", "300"})),
          "so nothing is known of batch 300, which is not between those that were measured"));
  const std::string prices = scratch_.path("prices.toml");
  test::spill(prices, "budget = 30000\n[compute]\nprice = 1500\n[bandwidth]\nprice = 4000\n");
  EXPECT_TRUE(has(complaint(words("machine", {"--batch", "64", "--cost", prices})),
                  "--cost: the law of updates is not trusted, and what to buy rests on it"));
}

// A fifth is evaluated where nobody has said how much is to be.
TEST_F(PlanAnswers, WhatIsEvaluatedIsTheUsersMatter) {
  const auto fraction = [this](Words overrides) {
    overrides.push_back("evaluation.from=training");
    return open_planned(RecipeWords{.path = recipe_, .overrides = overrides},
                        GoalWords{.target = "train_loss=1", .targets = "", .metric = ""})
        .recipe.evaluation.fraction;
  };
  EXPECT_EQ(fraction({}), 0.2);
  EXPECT_EQ(fraction({"evaluation.fraction=0.5"}), 0.5);
  EXPECT_EQ(fraction({"evaluation.fraction=1"}), 1);
  test::spill(recipe_, std::string(kRecipe) + "[evaluation]\nfraction = 1.0\n");
  EXPECT_EQ(fraction({}), 1);
}

// An evaluation takes as long as what it costs.
TEST_F(PlanAnswers, EvaluationsAreCountedAsBatchesAre) {
  test::spill(recipe_, "plugins = [\"" +
                           std::filesystem::path(rank_program())
                               .replace_filename("libcli_arranged_plugin.so")
                               .string() +
                           "\"]\n" + R"(
[task]
name = "next_letter"
[model]
name = "reader"
[data]
reader = "words"
[data.train]
size = 400
[data.validation]
size = 300
[optimizer]
lr = 0.5
[training]
batch = 64
epochs = 2
)");
  const auto open = [this](const char* target) {
    return open_planned(RecipeWords{.path = recipe_, .overrides = {}},
                        GoalWords{.target = target, .targets = "", .metric = ""});
  };
  const Planned training = open("train_perplexity=1");
  EXPECT_FALSE(training.counts_samples);
  EXPECT_GT(training.samples, 800);  // of 400 texts
  EXPECT_EQ(training.evaluated, std::llround(0.2 * static_cast<double>(training.samples)));
  EXPECT_GT(open("perplexity=1").evaluated, 120);  // of 60
}

// Without a network for one worker, and with one for several.
TEST_F(PlanAnswers, OneWorkerNeedsNoNetwork) {
  measure();
  const plan::PlanPoints all = points();
  const PlannedMachine machine{{machine_of(0), {}, {}}, std::nullopt, std::nullopt};
  const Answers one = answer(all, machine, {1}, kSamples);
  ASSERT_EQ(one.levels.size(), 2u);
  const plan::BatchChoice& choice = one.levels[1].choices.at(0);
  EXPECT_EQ(choice.batch,
            plan::best_batch(one.levels[1].updates.law, machine_of(0), 1, kSamples).batch);
  const PlannedMachine many{{machine_of(0.02), {}, {}}, std::nullopt, std::nullopt};
  const Answers two = answer(all, many, {1, 2}, kSamples);
  EXPECT_EQ(two.levels[1].choices.at(0).batch, choice.batch);
  EXPECT_NE(two.levels[1].choices.at(1).batch, choice.batch);
}

TEST_F(PlanAnswers, TimesThatAreFarOffAreMeasuredAgain) {
  plan::PlanPoints points;
  const auto add = [&points](std::int64_t samples, double factor) {
    points.times.push_back(
        {samples, 1e-3 * std::max<double>(static_cast<double>(samples), 8) * factor});
  };
  for (const std::int64_t samples : {1, 4, 16, 64, 256}) {
    for (const double factor : {0.99, 1.0, 1.01}) add(samples, factor);
  }
  EXPECT_TRUE(disturbed_times(points, 3).empty());
  points.times[7].seconds *= 2;  // of 16 samples
  EXPECT_EQ(disturbed_times(points, 3), std::vector<std::int64_t>{16});
  add(16, 1.005);
  EXPECT_TRUE(disturbed_times(points, 3).empty());
  points.times.back().seconds *= 2;
  EXPECT_EQ(disturbed_times(points, 3), std::vector<std::int64_t>{16});
  EXPECT_TRUE(disturbed_times(points, 2).empty());  // it was tried as often again
}

TEST_F(PlanAnswers, ReportShowsAnswersAndPictures) {
  measure();
  plan::PlanPoints all = points();
  for (const std::int64_t samples : {4, 16, 64, 128}) {
    for (const double factor : {0.98, 1.0, 1.02})
      all.times.push_back(
          {samples, 1e-3 * std::max<double>(static_cast<double>(samples), 32) * factor});
  }
  for (const std::int64_t workers : {2, 4}) {
    for (const double factor : {0.97, 1.03})
      all.communication.push_back(
          {workers, 0.04 * (1 - 1 / static_cast<double>(workers)) * factor});
  }
  const Answers answers = answer(all, fit_machine(all), {1, 2, 4}, kSamples);
  const std::string page = make_plan_report({"bars & <more>", all, answers, kSamples});
  EXPECT_TRUE(has(page, "Plan of bars &amp; &lt;more&gt;"));
  EXPECT_TRUE(has(page, "To train_loss 0.5"));
  EXPECT_TRUE(has(page, "To train_loss 1.5"));
  for (const char* picture :
       {"Updates to the target", "by rate", "Time of an update", "Communication in an update",
        "Time to the target on 4 workers", "Batch against workers", "From 2 workers"})
    EXPECT_TRUE(has(page, picture)) << picture;
  int pictures = 0;
  for (std::size_t at = 0; (at = page.find("<svg viewBox", at)) != std::string::npos; ++at)
    ++pictures;
  EXPECT_EQ(pictures, 3 + 2 + 1 + 2 + 2 + 3);
  EXPECT_FALSE(has(page, "nothing to draw") || has(page, "curves over"));
  EXPECT_FALSE(has(page, "http:") || has(page, "https:") || has(page, "<script"));
  EXPECT_LT(page.size(), 600'000u);

  // A law with updates that fall to nothing is shown, and nothing is made of it.
  for (plan::PointRun& run : all.runs) {
    const double off = 1 + 0.05 * (static_cast<double>(run.seed) - 2);
    run.updates = std::llround(40000 * std::pow(static_cast<double>(run.batch), -1.3) * off);
    run.reached = {{0.5, run.updates}};
  }
  const Answers falling = answer(all, fit_machine(all), {1, 2}, kSamples);
  ASSERT_FALSE(falling.levels.back().updates.trusted);
  const std::string plain = make_plan_report({"bars", all, falling, kSamples});
  EXPECT_TRUE(has(plain, "not to be trusted"));
  EXPECT_FALSE(has(plain, "Better machines") || has(plain, "Scaling to"));
}

}  // namespace
}  // namespace convoy::cli
