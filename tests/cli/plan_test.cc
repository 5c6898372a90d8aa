// convoy plan batch, with a small network and few points.
#include <csignal>
#include <map>
#include <set>

#include "base/own_files.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanBatch : public PlanFixture {
 protected:
  using Options = std::map<std::string, std::string>;

  // With a machine that is given, and one worker: trainings alone.
  Words sweep(Options options, Words more = {}) const {
    const std::string given = scratch_.path("given.toml");
    plan::Machine machine = machine_of(0);
    machine.source = "measured";
    test::spill(given, plan::to_toml(machine));
    options.insert({{"--batches", "20,80"},
                    {"--rates", "0.02"},
                    {"--seeds", "2"},
                    {"--workers", "1"},
                    {"--every", "1"},
                    {"--machine", given}});
    for (const auto& [name, value] : options) more.insert(more.end(), {name, value});
    return words("batch", more);
  }
};

// Killed once: what was finished is not done again, and the answers are complete.
TEST_F(PlanBatch, GoesOnAfterAKillAndAnswers) {
  const auto whole = [this](Words more = {}) {
    for (const auto& [name, value] : Options{{"--metric", "train_loss"},
                                             {"--targets", "1.5,0.5"},
                                             {"--batches", "20,80"},
                                             {"--rates", "0.02"},
                                             {"--seeds", "2"},
                                             {"--every", "1"},
                                             {"--time", "4,64"},
                                             {"--workers", "1,2"},
                                             {"--repetitions", "2"}})
      more.insert(more.end(), {name, value});
    return words("batch", more);
  };
  {
    Job job(whole());
    // What is timed comes before it, in eight trainings: it may take as long as two waits.
    bool seen = false;
    for (int times = 0; times < 2 && !seen; ++times) seen = job.wait_for("seed 1: ", 1);
    ASSERT_TRUE(seen);
    kill(job.pid(), SIGKILL);
    job.finish();
  }
  const plan::PlanPoints before = points();
  EXPECT_GE(before.times.size(), 4u);
  // Twice with each batch, more where times differ. With the larger one alone if half of the
  // smaller one keeps no worker busy, by what was timed.
  std::map<std::int64_t, int> exchanges;
  for (const plan::CommunicationSample& one : before.communication) ++exchanges[one.batch];
  EXPECT_TRUE(exchanges.contains(80));
  for (const auto& [batch, times] : exchanges) EXPECT_GE(times, 2) << batch;
  EXPECT_GE(before.runs.size(), 1u);
  EXPECT_TRUE(has(complaint(whole()), "add --resume to go on with them"));
  EXPECT_TRUE(has(complaint(whole({"--resume", "--set", "optimizer.momentum=0.5"})),
                  "of another recipe: optimizer.momentum is 0.5, there it is 0.9"));

  const JobResult result = Job(whole({"--resume"})).finish();
  ASSERT_EQ(result.exit_status, 0) << result.out << result.err;
  const plan::PlanPoints after = points();
  EXPECT_EQ(after.times.size(), before.times.size());
  EXPECT_EQ(after.communication.size(), before.communication.size());
  ASSERT_EQ(after.runs.size(), 4u);
  for (std::size_t i = 0; i < before.runs.size(); ++i) EXPECT_EQ(after.runs[i], before.runs[i]);
  for (const std::int64_t batch : {20, 80}) {
    for (const std::uint64_t seed : {1u, 2u}) EXPECT_TRUE(after.has(batch, 0.02, seed));
  }
  EXPECT_FALSE(has(result.out, "update of ")) << result.out;
  EXPECT_FALSE(std::filesystem::exists(plan_ + "/trials"));
  EXPECT_TRUE(has(result.out, "train_loss 0.5:") && has(result.out, "M_opt")) << result.out;
  int choices = 0;
  for (const Json& row : written()) {
    if (row["kind"] != "batch") continue;
    ++choices;
    EXPECT_GE(row["batch"], 1);
    EXPECT_GT(row["seconds"], 0);
    EXPECT_EQ(row["learning_rate"], 0.02);
  }
  EXPECT_EQ(choices, 2 * 2);  // targets, workers

  const std::string file = plan_ + "/plan.toml";
  EXPECT_TRUE(has(result.out, "\nsoonest to train_loss 0.5: ")) << result.out;
  EXPECT_EQ(written().front()["kind"], "answer");
  EXPECT_TRUE(
      has(result.out, "\nto train so: convoy train " + recipe_ + " --plan " + file + " -n "))
      << result.out;
  EXPECT_TRUE(has(result.out, " --set threads=1\n")) << result.out;
  const auto trained = [&](Words more) {
    more.insert(more.begin(), {"train", recipe_, "--plan", file, "--set", "training.epochs=0",
                               "--set", "training.steps=3"});
    return more;
  };
  std::string of_more = read_text_file(file);
  const std::size_t samples = of_more.find("\nsamples = 400\n");
  ASSERT_NE(samples, std::string::npos) << of_more;
  test::spill(file, of_more.replace(samples + 1, 13, "samples = 800"));
  for (const char* workers : {"1", "2"}) {
    const std::string folder = scratch_.path(std::string("run") + workers);
    const JobResult run =
        Job(trained({"-n", workers, "--set", "output.folder=" + folder})).finish();
    EXPECT_EQ(run.exit_status, 0) << run.err;
    EXPECT_TRUE(has(run.out, std::string("for ") + workers + " worker")) << run.out;
    EXPECT_TRUE(has(run.out, ", from " + file)) << run.out;
    // It trains all the same, with other threads than were timed and with half of the data.
    EXPECT_EQ(count(run.err, "threads is 0, a rank's share of the cores, in the plan it is 1"), 1)
        << run.err;
    EXPECT_EQ(count(run.err, "data.train has 400 samples, in the plan it has 800"), 1) << run.err;
  }
  EXPECT_TRUE(has(complaint(trained({"-n", "3"})), "the plan says nothing of 3 workers"));
  EXPECT_TRUE(has(complaint(trained({"--set", "training.batch=7"})), "contradict each other"));
}

TEST_F(PlanBatch, BudgetAddsRunsThatSayMost) {
  const auto rows = rows_of(sweep({{"--targets", "1.5"}}));
  EXPECT_EQ(points().runs.size(), 4u);
  EXPECT_TRUE(std::filesystem::exists(plan_ + "/report.html"));
  // Nothing says whose times they are: not those of the folder.
  EXPECT_TRUE(has(read_text_file(plan_ + "/machine.toml"), "source = \"given\""));
  // Until the budget, which is of real time, has been enough for a run on a machine however slow.
  for (int budget_s = 2; points().runs.size() <= 4; budget_s *= 2) {
    ASSERT_LE(budget_s, 64) << "no run was added";
    rows_of(
        sweep({{"--targets", "1.5"}, {"--budget", std::to_string(budget_s) + "s"}}, {"--resume"}));
  }
  const plan::PlanPoints all = points();
  std::set<std::pair<std::int64_t, std::uint64_t>> different;
  for (const plan::PointRun& run : all.runs) {
    EXPECT_TRUE(run.batch == 20 || run.batch == 80);
    EXPECT_EQ(run.learning_rate, 0.02);
    different.insert({run.batch, run.seed});
  }
  EXPECT_EQ(different.size(), all.runs.size());
  EXPECT_TRUE(all.times.empty() && all.communication.empty());
}

TEST_F(PlanBatch, ATargetThatIsNotReachedSaysHowFarItGot) {
  const std::string text = complaint(sweep({{"--targets", "-1"}, {"--longest", "0.5"}}));
  EXPECT_TRUE(has(text, "the best train_loss of any run was ")) << text;
  EXPECT_TRUE(has(text, "with batch 20 and rate 0.02 after ")) << text;
  EXPECT_TRUE(has(text, "--resume with a larger --longest EPOCHS lets runs go on")) << text;
  EXPECT_FALSE(has(text, "budget")) << text;
}

TEST_F(PlanBatch, ABudgetThatIsTooShortSaysSo) {
  const std::string text = complaint(sweep({{"--targets", "1"}, {"--budget", "0.01s"}}));
  EXPECT_TRUE(has(text,
                  "the budget ended before there was enough for an answer: --resume with "
                  "another --budget goes on"))
      << text;
  const std::vector<Json> rows = written();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["kind"], "machine");
  EXPECT_EQ(rows[1]["kind"], "without");
  EXPECT_TRUE(has(text, rows[1]["why"])) << text;
  // `convoy train --plan` takes no answer of before.
  {
    PlanFolder folder(plan_, planned("1"), true);
    folder.add({.batch = 20,
                .learning_rate = 0.02,
                .seed = 1,
                .updates = 9,
                .seconds = 1,
                .reached = {{1, 9}}},
               {});
  }
  test::spill(plan_ + "/plan.toml", std::string(kPlanMark) + "recipe = \"bars\"\n");
  complaint(sweep({{"--targets", "1"}, {"--budget", "0.01s"}}, {"--resume"}));
  EXPECT_FALSE(std::filesystem::exists(plan_ + "/plan.toml"));
}

TEST_F(PlanBatch, MistakesAreFoundBeforeAnythingIsMeasured) {
  EXPECT_TRUE(has(complaint(sweep({})), "what is to be reached? Give --targets"));
  EXPECT_TRUE(has(complaint(sweep({{"--targets", "1"}, {"--batches", "16,401"}})),
                  "--batches: 401 is more than the data has: 400 samples"));
  const auto refused = [this](const char* option, const char* value, const std::string& why) {
    Options options{{"--targets", "1"}};
    options[option] = value;
    const std::string text = complaint(sweep(options));
    EXPECT_TRUE(has(text, why)) << text;
  };
  refused("--target", "train_loss=1", "--target and --targets contradict each other");
  refused("--batches", "16", "--batches: updates by batch need two different ones at least");
  refused("--seeds", "1", "2 batches with 1 run of each rate are too few: updates by batch need");
  refused("--time", "1,4", "--machine says how long updates take; leave --time out");
  refused("--budget", "1d", "'1d' is no length of time, as 90s, 30m, 2h");
  refused("--set", "grid.partitions=2", "grid.partitions is 2");
  refused("--metric", "loss", "the recipe has no [data.validation] for the metric loss");
  refused("--rates", "0", "0 is not above 0");
  EXPECT_FALSE(std::filesystem::exists(plan_));
}

}  // namespace
}  // namespace convoy::cli
