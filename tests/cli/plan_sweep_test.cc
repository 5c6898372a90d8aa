// What a plan measures, in which order, and what it makes of a budget.
#include <cmath>
#include <sstream>

#include "cli/plan/rates.h"
#include "cli/plan/sweep_times.h"
#include "convoy/base/error.h"
#include "tests/cli/fake_plan.h"

namespace convoy::cli {
namespace {

using plan::Stop;

class PlanSweep : public FakePlan {
 protected:
  // As sweep(), of a machine that is given: nothing is timed.
  Sweep untimed(Deadline deadline = {}) const {
    Sweep sweep = this->sweep(deadline);
    sweep.machine.emplace();
    sweep.machine->seconds_per_sample = 1e-3;
    sweep.machine->knee_samples = 8;
    return sweep;
  }

  // As sweep(), with two workers on one host.
  Sweep of_two_workers(const std::vector<std::int64_t>& batches) const {
    Sweep sweep = this->sweep();
    sweep.batches = batches;
    sweep.timed = {4, 16};
    sweep.workers = {1, 2};
    sweep.workplace.cores = {0, 1};
    return sweep;
  }
  // What it measures where a sample takes 0.01 s, but for updates of two workers. Runs that took so
  // long are made again last of all.
  static void add_all_of_one_worker(PlanFolder& folder, const Sweep& sweep) {
    folder.move_to(sweep.workplace.name());
    for (const std::uint64_t seed : {1, 2}) {
      for (const std::int64_t samples : {4, 16})
        folder.add(plan::TimeSample{samples, 0.1 + 0.01 * static_cast<double>(samples)});
      folder.add(plan::PointRun{8, 0.1, seed, 70, 1e6, false, {{5, 39}, {1, 70}}}, {});
      folder.add(plan::PointRun{32, 0.1, seed, 33, 1e6, false, {{5, 19}, {1, 33}}}, {});
    }
  }

  // What is said of it.
  std::string sweep_over(PlanFolder& folder, const Sweep& sweep) {
    return told([&](std::FILE* out) { measure(planned, sweep, folder, out); });
  }

  static std::vector<std::int64_t> timed(const plan::PlanPoints& points) {
    std::vector<std::int64_t> sizes;
    for (const plan::TimeSample& time : points.times) sizes.push_back(time.samples);
    return sizes;
  }
};

TEST_F(PlanSweep, GoesFromBothEndsToTheMiddle) {
  const auto order = [](const std::vector<std::int64_t>& batches,
                        const std::vector<double>& rates) {
    std::string text;
    for (const WantedRun& run : grid(batches, rates, 7)) {
      EXPECT_EQ(run.seed, 7u);
      text +=
          std::to_string(run.batch) + "@" + std::to_string(std::llround(run.learning_rate)) + " ";
    }
    return text;
  };
  EXPECT_EQ(order({16, 64, 256, 1024}, {1, 2, 4}),
            "1024@2 16@2 256@2 64@2 1024@4 16@4 256@4 64@4 1024@1 16@1 256@1 64@1 ");
  EXPECT_EQ(order({1, 2, 3}, {5}), "3@5 1@5 2@5 ");
  EXPECT_EQ(order({1, 2}, {3, 4}), "2@4 1@4 2@3 1@3 ");
  EXPECT_EQ(order({1}, {1, 2, 3, 4, 5}), "1@3 1@4 1@2 1@5 1@1 ");
}

TEST_F(PlanSweep, MeasuresTimesAndRunsOnce) {
  PlanFolder folder = open();
  const std::string text = sweep_over(folder, sweep());
  EXPECT_TRUE(has(text, "loss before training: 10")) << text;
  EXPECT_EQ(timed(folder.points()), (std::vector<std::int64_t>{4, 64, 4, 64}));
  EXPECT_EQ(folder.points().runs.size(), 4u);
  EXPECT_NE(folder.points().machine, "");
  EXPECT_EQ(sweep_over(folder, sweep()), "");
}

TEST_F(PlanSweep, LeavesOutBatchesThatThereIsNoTrainingWith) {
  script({{"refused", {1, 2}}});
  Sweep sweep = this->sweep();
  sweep.timed = {1, 4, 64};
  PlanFolder folder = open();
  const std::string text = sweep_over(folder, sweep);
  EXPECT_EQ(timed(folder.points()), (std::vector<std::int64_t>{4, 64, 4, 64}));
  EXPECT_TRUE(
      has(text,
          "updates of 1 sample are left out: timing updates of 1 sample on 1 worker failed: "
          "batches of 1 are refused\n"))
      << text;
  EXPECT_EQ(folder.points().runs.size(), 4u);
  // With a budget, too, which suggests times (and may be too short on a slow machine).
  sweep.limits = limits(100, in(1));
  test::message_of<UsageError>([&] { sweep_over(folder, sweep); });
  for (const std::int64_t size : timed(folder.points())) EXPECT_NE(size, 1);

  sweep.timed = {1, 2, 32};
  sweep.limits = limits(100);
  const std::string error = test::message_of<UsageError>([&] { sweep_over(folder, sweep); });
  EXPECT_TRUE(has(error, "batches of 2 are refused; --time needs two batches")) << error;
}

// The largest that memory does not hold, say. Of the others there is a plan.
TEST_F(PlanSweep, LeavesOutABatchThatATrainingFailsWith) {
  script({{"crashing", {64}}});
  Sweep sweep = this->sweep();
  sweep.batches = {8, 32, 64};
  sweep.timed = {4, 16, 64};
  PlanFolder folder = open();
  FailedBatches failed;
  const std::string text =
      told([&](std::FILE* out) { failed = measure(planned, sweep, folder, out); });
  EXPECT_EQ(timed(folder.points()), (std::vector<std::int64_t>{4, 16, 4, 16}));
  EXPECT_TRUE(has(text,
                  "updates of 64 samples are left out: timing updates of 64 samples on 1 "
                  "worker failed: a batch of 64 needs more memory than there is\n"))
      << text;
  EXPECT_EQ(folder.points().runs.size(), 4u);
  const std::string why =
      "the run with batch 64, rate 0.1, seed 1 failed: a batch of 64 needs more memory than there "
      "is";
  EXPECT_EQ(failed.why, (std::map<std::int64_t, std::string>{{64, why}}));
  EXPECT_TRUE(has(text, "batch 64 is left out from now on: " + why + "\n")) << text;
  EXPECT_FALSE(has(text, "seed 2 failed")) << text;
  // Where it is no matter of the batch, the plan ends.
  script({{"crashing", {32, 64}}});
  Sweep untimed = this->untimed();
  untimed.batches = sweep.batches;
  untimed.seeds = 3;
  const std::string error = test::message_of<Failure>([&] { sweep_over(folder, untimed); });
  EXPECT_TRUE(has(error, "fewer than two batches are left")) << error;
}

// Three times are needed, and of three batches one is none.
TEST_F(PlanSweep, ABudgetTimesOthersMoreOftenWhereABatchIsRefused) {
  script({{"refused", {1}}});
  Sweep sweep = this->sweep();
  sweep.timed = {1, 4, 16};
  sweep.repetitions = 1;
  PlanFolder folder = open();
  for (double seconds = 1; folder.points().runs.empty(); seconds *= 2) {
    ASSERT_LT(seconds, kLongest_s);
    sweep.limits = limits(100, in(seconds));
    try {
      sweep_over(folder, sweep);
    } catch (const UsageError& error) {
      ASSERT_TRUE(has(error.what(), "--budget: it was used up")) << error.what();
    }
  }
  EXPECT_GE(folder.points().times.size(), 4u);
}

TEST_F(PlanSweep, RefusesTargetsThatAreMetBeforeTraining) {
  script({{"start", 4}});
  {
    PlanFolder folder = open();
    EXPECT_EQ(test::message_of<UsageError>([&] { sweep_over(folder, sweep()); }),
              "loss 5 is met before training: a network that has learnt nothing has 4; choose a "
              "harder target");
    EXPECT_TRUE(folder.points().times.empty());
  }
  // Other targets can take the folder.
  planned.goal.levels = {2, 1};
  PlanFolder folder = open(false);
  sweep_over(folder, sweep());
  EXPECT_EQ(folder.points().runs.size(), 4u);
}

TEST_F(PlanSweep, TimesAreOfOneMachine) {
  std::string here;
  {
    PlanFolder folder = open();
    sweep_over(folder, sweep());
    here = folder.points().machine;
  }
  {
    plan::PointsFile file(scratch.path("plan/points.jsonl"), {"fake", "loss", {5, 1}});
    file.move_to("another one");
    file.add(plan::TimeSample{4, 100});
  }
  PlanFolder folder = open();
  EXPECT_EQ(timed(folder.points()), std::vector<std::int64_t>{4});
  const std::string text = sweep_over(folder, sweep());
  EXPECT_TRUE(has(text, "of another machine, another one; those of this one, " + here)) << text;
  EXPECT_EQ(folder.points().machine, here);
  EXPECT_EQ(timed(folder.points()), (std::vector<std::int64_t>{4, 64, 4, 64}));
  EXPECT_EQ(folder.points().elsewhere.at("another one").times.size(), 1u);
  EXPECT_EQ(folder.points().runs.size(), 4u);
}

TEST_F(PlanSweep, ABudgetThatTimesUseUpSaysSo) {
  script({{"hanging", 64}, {"most", 9}});  // no time is known after so few
  PlanFolder folder = open();
  const std::string error =
      test::message_of<UsageError>([&] { sweep_over(folder, sweep(in(0.5))); });
  EXPECT_TRUE(has(error,
                  "--budget: it was used up before trainings to the target could begin: 0 of "
                  "the 4 times of updates"))
      << error;
  EXPECT_TRUE(folder.points().runs.empty());
}

// What is asked for is there: of an answer nothing is missing.
TEST_F(PlanSweep, ABudgetThatIsOverTakesNothingFromAPlanThatIsComplete) {
  PlanFolder folder = open();
  sweep_over(folder, sweep());
  EXPECT_EQ(sweep_over(folder, sweep(in(0))), "");
  EXPECT_EQ(folder.points().runs.size(), 4u);
}

// In such a plan updates of workers that share a host were timed with one batch.
TEST_F(PlanSweep, ABudgetThatIsOverTakesNothingFromAPlanOfBefore) {
  Sweep sweep = of_two_workers({8, 32});
  PlanFolder folder = open();
  add_all_of_one_worker(folder, sweep);
  folder.add(plan::CommunicationSample{2, 0.02, 8, 0.16, 2});
  ASSERT_EQ(exchanges_of(sweep, folder.points(), 2).size(), 2u) << "another one is wanted by now";
  sweep.limits = limits(100, in(0));
  const std::string error = test::message_of<UsageError>([&] { sweep_over(folder, sweep); });
  EXPECT_TRUE(has(error, "5 of the 6 times of updates")) << "one time is too few: " << error;
  folder.add(plan::CommunicationSample{2, 0.02, 8, 0.16, 2});
  EXPECT_EQ(sweep_over(folder, sweep), "");
  EXPECT_TRUE(machine_of(sweep, folder.points()).communication) << "there is an answer";
  EXPECT_EQ(log(), "");
}

// Memory holds the smaller one alone, say. What these times leave open is worth the most.
TEST_F(PlanSweep, ABudgetLeavesOutTheBatchThatSeveralWorkersFailWith) {
  script({{"crashing", {64}}, {"per_sample", 0.01}, {"delta", 1}});
  Sweep sweep = of_two_workers({8, 32, 64});
  PlanFolder folder = open();
  add_all_of_one_worker(folder, sweep);
  for (const double delta : {0.5, 2.0})
    folder.add(plan::CommunicationSample{2, delta, 8, 0.14 + delta, 2});
  ASSERT_EQ(exchanges_of(sweep, folder.points(), 2).back().batch, 64);
  for (double seconds = 1; folder.points().communication.size() == 2; seconds *= 2) {
    ASSERT_LT(seconds, kLongest_s);
    sweep.limits = limits(100, in(seconds));
    sweep_over(folder, sweep);
  }
  for (const auto& time : folder.points().communication) EXPECT_EQ(time.batch, 8);
  EXPECT_TRUE(has(log(), "begin 64 - -n 2")) << "it was tried: " << log();
}

// Of a batch below all that were measured the law alone tells.
TEST_F(PlanSweep, SmallerBatchesAreTriedWhereTheseAreTheBest) {
  Sweep sweep = untimed();  // whose M_T is 8
  sweep.batches = {64, 256};
  sweep.rates = {0.1};
  PlanFolder folder = open();
  EXPECT_FALSE(has(sweep_over(folder, sweep), "tried, too")) << "--batches says which";
  EXPECT_EQ(batch_below(sweep, folder.points(), 1, planned.samples), 16);
  sweep.smaller_batches = true;
  const std::string text = sweep_over(folder, sweep);
  for (const char* batch : {"16", "4"})
    EXPECT_TRUE(has(text, "smaller than all that were tried: " + std::string(batch) + " is tried"))
        << text;
  for (const std::int64_t batch : {4, 16, 64, 256}) {
    for (const std::uint64_t seed : {1, 2}) EXPECT_TRUE(folder.points().has(batch, 0.1, seed));
  }
  EXPECT_EQ(folder.points().runs.size(), 8u);
  EXPECT_FALSE(batch_below(sweep, folder.points(), 1, planned.samples));
  EXPECT_EQ(sweep_over(folder, sweep), "");
}

TEST_F(PlanSweep, JobsAreAsManyAsThereMayBe) {
  Sweep sweep = untimed();
  EXPECT_EQ(places_of_runs(sweep).size(), 2u);
  sweep.jobs = 7;
  EXPECT_EQ(places_of_runs(sweep).size(), 2u);
  sweep.jobs = 1;
  EXPECT_EQ(places_of_runs(sweep).size(), 1u);
  PlanFolder folder = open();
  sweep_over(folder, sweep);
  EXPECT_EQ(folder.points().runs.size(), 4u);
  // One has ended before the next begins.
  std::istringstream lines(log());
  std::string order;
  for (std::string line; std::getline(lines, line);) order += line[0];
  EXPECT_TRUE(has(order, "bebebebe")) << order;
  EXPECT_FALSE(has(order, "bb")) << order;
}

TEST_F(PlanSweep, ABudgetGoesOnWithRunsThatAnotherStopped) {
  PlanFolder folder = open();
  sweep_over(folder, sweep());
  // Of the third seed one was stopped, and the rest is not known.
  folder.add(plan::PointRun{8, 0.1, 3, 5, 1, false, {}, Stop::budget}, {});
  folder.add(plan::PointRun{64, 0.1, 3, 5, 1, false, {}, Stop::budget}, {});
  Sweep more = untimed();
  for (double seconds = 0.5; seconds < kLongest_s; seconds *= 2) {
    more.limits = limits(100, in(seconds));
    sweep_over(folder, more);
    if (folder.points().find(8, 0.1, 3)->stopped == Stop::none) break;
  }
  EXPECT_EQ(folder.points().find(8, 0.1, 3)->reached.size(), 2u);
}

// Then the law has one batch only.
TEST_F(PlanSweep, ABudgetEndsWhereAFurtherRunDiverges) {
  script({{"diverging", 8}, {"rate", 0.1}, {"seed", 3}});
  PlanFolder folder = open();
  sweep_over(folder, untimed());
  ASSERT_EQ(folder.points().runs.size(), 4u);
  sweep_over(folder, untimed(in(test::patience_s())));
  ASSERT_NE(folder.points().find(8, 0.1, 3), nullptr);
  EXPECT_TRUE(folder.points().find(8, 0.1, 3)->diverged);
}

// Whichever of the two comes first.
TEST_F(PlanSweep, ARateHasHopeAgainWhenTheBetterOneDiverges) {
  script({{"diverging", 8}, {"rate", 0.1}, {"seed", 2}});
  Sweep sweep = untimed();
  sweep.rates = {0.4, 0.1};  // the second of two comes first
  sweep.workplace.places.resize(1);
  PlanFolder folder = open();
  // Beside the 70 updates of the better one.
  folder.add(plan::PointRun{8, 0.4, 1, 211, 1, false, {{5, 156}}, Stop::hopeless}, {});
  sweep_over(folder, sweep);
  EXPECT_TRUE(folder.points().find(8, 0.1, 2)->diverged);
  for (const std::uint64_t seed : {1, 2}) {
    const plan::PointRun* run = folder.points().find(8, 0.4, seed);
    ASSERT_NE(run, nullptr) << seed;
    EXPECT_EQ(run->reached.back(), (std::pair<double, std::int64_t>{1, 280})) << seed;
  }
  EXPECT_EQ(sweep_over(folder, sweep), "");
}

// Further seeds of a rate that is not the best one would narrow an answer that is none.
TEST_F(PlanSweep, ABudgetTriesTheNextRateWhereTheLargestIsTheBest) {
  PlanFolder folder = open();
  Sweep sweep = untimed();
  sweep.rates = {0.025, 0.05};
  std::string text;
  for (double seconds = 1; seconds < kLongest_s; seconds *= 2) {
    sweep.limits = limits(100, in(seconds));
    text += sweep_over(folder, sweep);
    if (folder.points().find(8, 0.2, 1) != nullptr && folder.points().find(64, 0.2, 1) != nullptr)
      break;
  }
  EXPECT_TRUE(
      has(text, "0.05 is the best rate with every batch, and the largest one: 0.1 is tried"))
      << text;
  for (const std::int64_t batch : {8, 64}) {
    EXPECT_NE(folder.points().find(batch, 0.1, 1), nullptr);
    EXPECT_NE(folder.points().find(batch, 0.2, 1), nullptr);
    EXPECT_EQ(folder.points().find(batch, 0.4, 1), nullptr);
  }
  EXPECT_FALSE(rate_beyond(folder.points(), planned.goal));
}

TEST(PlanRates, BeyondTheEndThatIsTheBestEverywhere) {
  plan::PlanPoints points;
  points.header = {"", "loss", {1}};
  Goal goal{"loss", "loss", false, false, {1}};
  const auto add = [&points](std::int64_t batch, double rate, std::int64_t updates) {
    plan::PointRun run;
    run.batch = batch, run.learning_rate = rate, run.updates = updates, run.seed = 1;
    run.reached = {{1, updates}};
    points.runs.push_back(run);
  };
  add(8, 0.1, 100);
  add(64, 0.1, 50);
  EXPECT_FALSE(rate_beyond(points, goal)) << "one rate alone";
  add(8, 0.4, 200);
  EXPECT_DOUBLE_EQ(rate_beyond(points, goal)->next, 0.025);
  EXPECT_FALSE(rate_beyond(points, goal)->above);
  add(64, 0.4, 40);
  EXPECT_FALSE(rate_beyond(points, goal)) << "with one batch it is the other end";
}

// Such a run would not be made, and the same be suggested again and again.
TEST_F(PlanSweep, SuggestsNoRunAtARateWithoutHope) {
  plan::PlanPoints points;
  points.header = {"", "loss", {5, 1}};
  const auto add = [&points](std::int64_t batch, double rate, std::int64_t updates, bool reached) {
    plan::PointRun run;
    run.batch = batch, run.learning_rate = rate, run.updates = updates, run.seconds = 1;
    run.seed = points.runs.size();
    if (reached) run.reached = {{5, updates / 2}, {1, updates}};
    points.runs.push_back(run);
  };
  for (const std::int64_t batch : {8, 64}) {
    for (const std::int64_t more : {0, 1, 2, 3, 4, 5}) add(batch, 0.1, 30 + more, true);
    add(batch, 0.2, 100, true);
  }
  const auto batches = [&] {
    std::vector<std::int64_t> list;
    for (const auto& one :
         candidate_runs(points, planned.goal, plan::fit_updates(points.updates(1))))
      list.push_back(one.size);
    return list;
  };
  EXPECT_EQ(batches(), (std::vector<std::int64_t>{8, 64}));
  add(8, 0.1, 300, false);
  ASSERT_TRUE(is_hopeless(points, planned.goal, 8, 0.1));
  ASSERT_EQ(plan::fit_updates(points.updates(1)).envelope.front().learning_rate, 0.1);
  EXPECT_EQ(batches(), std::vector<std::int64_t>{64});
}

}  // namespace
}  // namespace convoy::cli
