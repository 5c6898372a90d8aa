// What a plan makes of numbers, before and after its trainings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/launch/child.h"
#include "cli/plan/goal.h"
#include "cli/plan/measure.h"
#include "cli/plan/numbers.h"
#include "cli/plan/planned.h"
#include "cli/plan/rates.h"
#include "cli/plan/runs.h"
#include "cli/plan/trial.h"
#include "cli/plan/trial_folders.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

const std::vector<KnownMetric> kKnown{{"top1", true, true}, {"loss", false, false}};

std::string refusal(const GoalWords& words, bool has_validation = true) {
  return test::message_of<UsageError>([&] { parse_goal(words, kKnown, has_validation); });
}

TEST(PlanGoal, HasLevelsFromTheEasiestToTheHardest) {
  Goal goal = parse_goal({.target = "", .targets = "0.1,0.3,0.1", .metric = ""}, kKnown, true);
  EXPECT_EQ(goal.metric, "loss");
  EXPECT_FALSE(goal.on_training);
  EXPECT_EQ(goal.levels, (std::vector<double>{0.3, 0.1}));
  EXPECT_TRUE(goal.reached(0.1, goal.hardest()));
  EXPECT_FALSE(goal.reached(0.11, goal.hardest()));
  goal = parse_goal({.target = "", .targets = "0.99,0.9", .metric = "train_top1"}, kKnown, true);
  EXPECT_EQ(goal.of_task, "top1");
  EXPECT_TRUE(goal.on_training);
  EXPECT_EQ(goal.levels, (std::vector<double>{0.9, 0.99}));
  EXPECT_TRUE(goal.reached(0.991, goal.hardest()));
  EXPECT_EQ(parse_goal({.target = "loss=0.5", .targets = "", .metric = ""}, kKnown, true).levels,
            std::vector<double>{0.5});
  // Without validation data the loss is that of training.
  EXPECT_EQ(parse_goal({.target = "", .targets = "1", .metric = ""}, kKnown, false).metric,
            "train_loss");
}

TEST(PlanGoal, MistakesAreNamed) {
  EXPECT_NE(refusal({}).find("what is to be reached? Give --targets"), std::string::npos);
  EXPECT_NE(refusal({.target = "loss=1", .targets = "1", .metric = ""}).find("contradict"),
            std::string::npos);
  EXPECT_NE(refusal({.target = "0.5", .targets = "", .metric = ""}).find("METRIC=LEVEL"),
            std::string::npos);
  EXPECT_NE(
      refusal({.target = "", .targets = "0.5,much", .metric = ""}).find("'much' is no number"),
      std::string::npos);
  EXPECT_NE(refusal({.target = "tain_loss=1", .targets = "", .metric = ""})
                .find("did you mean train_loss?"),
            std::string::npos);
  EXPECT_NE(refusal({.target = "top1=1", .targets = "", .metric = ""}, false)
                .find("no [data.validation] for the metric top1; train_top1"),
            std::string::npos);
  EXPECT_EQ(refusal({.target = "train_top1=95", .targets = "", .metric = ""}),
            "--target: 95, but train_top1 is a fraction, from 0 to 1: 95% is 0.95");
  EXPECT_NE(refusal({.target = "", .targets = "0.9,-0.1", .metric = "top1"})
                .find("--targets: -0.1, but top1 is a fraction"),
            std::string::npos);
  EXPECT_EQ(refusal({.target = "loss=95", .targets = "", .metric = ""}), "");
}

TEST(PlanGoal, ALevelIsReachedBetweenTwoEvaluations) {
  const Goal goal = parse_goal({.target = "", .targets = "3,1", .metric = ""}, kKnown, true);
  using Reached = std::vector<std::pair<double, std::int64_t>>;
  const Curve curve{{10, 5}, {20, 2}, {30, 4}, {40, 0.5}};
  // A loss falls evenly in its logarithm. From 5 at 10 to 2 at 20: 3 after 15.6 updates. From 4 at
  // 30 to 0.5 at 40: 1 after 36.7.
  EXPECT_EQ(reached_levels(goal, curve), (Reached{{3, 16}, {1, 37}}));
  // What may be 0 or below, and what rises, changes evenly.
  EXPECT_EQ(reached_levels(goal, {{30, 4}, {40, -1}}), (Reached{{3, 32}, {1, 36}}));
  Goal rising = goal;
  rising.higher_is_better = true;
  rising.levels = {0.5};
  EXPECT_EQ(reached_levels(rising, {{10, 0.2}, {20, 0.8}}), (Reached{{0.5, 15}}));
  EXPECT_EQ(reached_levels(goal, {{10, 2.5}}), (Reached{{3, 10}}));
  EXPECT_EQ(reached_levels(goal, {{10, NAN}, {20, 1}}), (Reached{{3, 20}, {1, 20}}));
  EXPECT_EQ(reached_levels(goal, {{10, 3.5}, {20, 3.0001}}), Reached{});
  EXPECT_EQ(reached_levels(goal, {{1, 4}, {2, 3}}), (Reached{{3, 2}}));
  EXPECT_EQ(best_value(goal, curve), 0.5);
  EXPECT_TRUE(std::isnan(best_value(goal, {})));
}

TEST(PlanNumbers, Durations) {
  EXPECT_EQ(parse_duration("90", "--budget"), 90);
  EXPECT_EQ(parse_duration("1.5m", "--budget"), 90);
  EXPECT_EQ(parse_duration("2h", "--budget"), 7200);
  for (const char* bad : {"", "m", "-1m", "0", "1d", "inf"})
    EXPECT_THROW(parse_duration(bad, "--budget"), UsageError) << bad;
  EXPECT_EQ(parse_counts("64,16,16", "--batches"), (std::vector<std::int64_t>{16, 64}));
  for (const char* bad : {"0", "1.5", "-2", "16,", "x"})
    EXPECT_THROW(parse_counts(bad, "--batches"), UsageError) << bad;
  EXPECT_THROW(parse_positive_numbers("0.1,0", "--rates"), UsageError);
}

// Of 64 samples.
std::vector<TrialMetrics::Update> updates_of(std::size_t count, double seconds) {
  std::vector<TrialMetrics::Update> updates;
  for (std::size_t i = 0; i < count; ++i) {
    // The first are slow.
    updates.push_back(
        {static_cast<std::int64_t>(i + 1), 1, i < 5 ? 100 : seconds, seconds / 4, 64});
  }
  return updates;
}

TEST(PlanTimes, AreMeansOfEnoughUpdatesAfterTheFirst) {
  EXPECT_FALSE(mean_times(updates_of(14, 0.1), 64));
  ASSERT_TRUE(mean_times(updates_of(15, 0.1), 64));
  EXPECT_NEAR(mean_times(updates_of(15, 0.1), 64)->seconds, 0.1, 1e-12);
  EXPECT_NEAR(mean_times(updates_of(15, 0.1), 64)->exposed_communication, 0.025, 1e-12);
  EXPECT_FALSE(mean_times(updates_of(54, 0.01), 64));  // less than half a second
  EXPECT_TRUE(mean_times(updates_of(56, 0.01), 64));
  EXPECT_FALSE(mean_times(updates_of(7, 20), 64));
  EXPECT_TRUE(mean_times(updates_of(8, 20), 64));  // ten would take long
}

TEST(PlanTimes, AreOfWholeBatches) {
  // Every other update is what the end of an epoch leaves.
  auto updates = updates_of(24, 0.1);
  for (std::size_t i = 1; i < updates.size(); i += 2)
    updates[i].samples = 8, updates[i].seconds = 1;
  EXPECT_FALSE(mean_times(updates, 64));
  updates.push_back({25, 1, 0.1, 0.025, 64});
  ASSERT_TRUE(mean_times(updates, 64));
  EXPECT_NEAR(mean_times(updates, 64)->seconds, 0.1, 1e-12);
  // Where batches are not counted in samples, all of them count.
  ASSERT_TRUE(mean_times(updates, 0));
  EXPECT_NEAR(mean_times(updates, 0)->seconds, 0.55, 1e-12);
  EXPECT_NEAR(mean_times(updates, 400)->seconds, 0.55, 1e-12);
  // By the clock, as `convoy plan check` has them.
  double elapsed = 0;
  for (TrialMetrics::Update& update : updates) update.elapsed = elapsed += update.seconds;
  EXPECT_NEAR(mean_update_s(updates, 64), 0.1, 1e-9);
  EXPECT_NEAR(mean_update_s(updates, 0), 0.55, 1e-9);
  EXPECT_NEAR(mean_update_s({updates.begin(), updates.begin() + 2}, 64), 100, 1e-9);
  EXPECT_EQ(mean_update_s({}, 64), 0);
}

// An evaluation takes from the end of an update until it is told: also what is around it.
TEST(PlanTimes, AreElapsedWithoutEvaluations) {
  const test::Scratch scratch;
  const std::string path = scratch.path() + "/metrics.jsonl";
  std::ofstream(path) << R"({"kind": "step", "step": 1, "elapsed_s": 2, "loss": 1}
{"kind": "evaluation", "step": 1, "elapsed_s": 5, "loss": 0.9, "time_s": 2.5}
{"kind": "step", "step": 2, "elapsed_s": 5.75, "loss": 1}
{"kind": "step", "step": 3, "elapsed_s": 6.25, "loss": 1}
{"kind": "evaluation", "step": 3, "elapsed_s": 9.5, "loss": 0.8, "time_s": 3}
{"kind": "step", "step": 4, "elapsed_s": 10.5, "loss": 1}
)";
  TrialMetrics metrics(path, "loss");
  metrics.read();
  const auto& updates = metrics.updates();
  ASSERT_EQ(updates.size(), 4u);
  EXPECT_DOUBLE_EQ(updates[0].elapsed, 2);
  EXPECT_DOUBLE_EQ(updates[1].elapsed, 2.75);
  EXPECT_DOUBLE_EQ(updates[2].elapsed, 3.25);
  EXPECT_DOUBLE_EQ(updates[3].elapsed, 4.25);
  EXPECT_EQ(metrics.curve(), (Curve{{1, 0.9}, {3, 0.8}}));
  // An update takes what is between, whatever phases it has; the first sets things up.
  EXPECT_DOUBLE_EQ(updates[1].seconds, 0.75);
  EXPECT_DOUBLE_EQ(updates[2].seconds, 0.5);
  EXPECT_FALSE(updates[0].after_evaluation || updates[2].after_evaluation);
  EXPECT_TRUE(updates[1].after_evaluation && updates[3].after_evaluation);
  // Those behind an evaluation count as the others.
  const double mean = (2 + 0.5) / 2;
  EXPECT_DOUBLE_EQ(mean_update_s(updates, 0), mean);
  EXPECT_DOUBLE_EQ(seconds_until(updates, 1, 0), mean);
  EXPECT_DOUBLE_EQ(seconds_until(updates, 2, 0), 2 * mean);
  EXPECT_DOUBLE_EQ(seconds_until(updates, 9, 0), 3 * mean + 0.5);
  EXPECT_EQ(seconds_until({}, 9, 0), 0);
  // Where there are no others, they are what there is.
  auto all = updates;
  for (auto& update : all) update.after_evaluation = true;
  EXPECT_DOUBLE_EQ(mean_update_s(all, 0), 4.25 / 4);
  EXPECT_DOUBLE_EQ(seconds_until(all, 9, 0), 4.25);
}

// Batches of 64 in cost, of whose samples 48 count; the rest of an epoch is smaller.
TEST(PlanNoise, IsThatOfWhatBatchesCount) {
  std::vector<MeasuredNoise> noise;
  for (std::int64_t update = 1; update <= 6; ++update)
    noise.push_back({{update, 2, 30}, update % 2 == 0 ? 10.0 : 48.0});
  const auto by_cost = noise_by_cost(noise, 64);
  ASSERT_EQ(by_cost.size(), 6u);
  EXPECT_EQ(by_cost[3].update, 4);
  EXPECT_EQ(by_cost[3].gradient_square, 2);
  EXPECT_DOUBLE_EQ(by_cost[3].variance, 40);  // of one of 64 instead of one of 48
  EXPECT_DOUBLE_EQ(noise_by_cost(noise, 48)[0].variance, 30);
  EXPECT_TRUE(noise_by_cost({}, 48).empty());
}

TEST(PlanTrials, HaveFoldersOfTheirOwn) {
  const test::Scratch scratch;
  {
    const TrialFolders folders(scratch.path());
    const TrialFolder one = folders.fresh(), another = folders.fresh();
    EXPECT_TRUE(std::filesystem::is_directory(one.path()));
    EXPECT_EQ(std::filesystem::path(one.path()).parent_path(), scratch.path("trials"));
    EXPECT_NE(another.path(), one.path());
    const TrialFolders others(scratch.path());  // leaves them alone
    EXPECT_TRUE(std::filesystem::is_directory(one.path()));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.path("trials")));
}

// By name and lock: what a killed process has left, and nothing else.
TEST(PlanTrials, RemoveWhatWasLeftAndNothingElse) {
  const test::Scratch scratch;
  const std::string trials = scratch.path("trials");
  for (const char* name : {"4194305-aB3dEf", "4194306-abcdef", "4194307-abcdef", "mine-abcdef",
                           "4194305-abcdef.old", "4194305"}) {
    make_folders(trials + "/" + name);
    test::spill(trials + "/" + name + "/lock", "");
    test::spill(trials + "/" + name + "/notes", "x");
  }
  std::filesystem::remove(trials + "/4194306-abcdef/lock");
  const Descriptor lock(open((trials + "/4194307-abcdef/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  make_folders(scratch.path("elsewhere"));
  test::spill(scratch.path("elsewhere/lock"), "");
  std::filesystem::create_directory_symlink(scratch.path("elsewhere"), trials + "/1-abcdef");
  { const TrialFolders folders(scratch.path()); }
  EXPECT_FALSE(std::filesystem::exists(trials + "/4194305-aB3dEf"));
  for (const char* name : {"4194306-abcdef/notes", "4194307-abcdef/notes", "mine-abcdef/notes",
                           "4194305-abcdef.old/notes", "4194305/notes", "1-abcdef/lock"})
    EXPECT_TRUE(std::filesystem::exists(trials + "/" + name)) << name;
}

// What a process that was killed has left is its training's until that has ended, too.
TEST(PlanTrials, AreLeftToATrainingThatIsStillEnding) {
  const test::Scratch scratch;
  const std::string trials = scratch.path("trials");
  Pipe until = make_pipe();
  const pid_t killed = fork();
  if (killed == 0) {
    until.writing.reset();
    const TrialFolders folders(scratch.path());
    const TrialFolder folder = folders.fresh();
    ChildOptions options;
    options.input = ChildOptions::Input::given;
    options.given_input = until.reading.get();
    options.inherited = {folder.lock().get()};
    start_child({"/bin/sh", "-c", "trap '' TERM; mkdir $0/run; exec cat", folder.path()}, options);
    while (!std::filesystem::exists(folder.path() + "/run")) std::this_thread::yield();
    ::kill(getpid(), SIGKILL);
  }
  waitpid(killed, nullptr, 0);
  std::string folder;
  for (const auto& entry : std::filesystem::directory_iterator(trials)) folder = entry.path();
  {
    const TrialFolders others(scratch.path());
    EXPECT_TRUE(std::filesystem::exists(folder + "/run"));
    until.writing.reset();
    const Descriptor lock(open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);  // free when it has ended
  }
  EXPECT_FALSE(std::filesystem::exists(trials));
}

// Imagenette: nine batches of 1,024 and one of 253; two of 4,096 and one of 1,277.
TEST(PlanRuns, BatchesOfAnEpochAreWorthLessWhereTheLastIsSmaller) {
  EXPECT_NEAR(mean_batch(9469, 1024), 10 / (9. / 1024 + 1. / 253), 1e-9);
  EXPECT_NEAR(mean_batch(9469, 4096), 3 / (2. / 4096 + 1. / 1277), 1e-9);
  EXPECT_EQ(mean_batch(400, 40), 40);
  EXPECT_EQ(mean_batch(400, 400), 400);
}

TEST(PlanRuns, WithoutHopeWhereAnotherRateIsThreeTimesAsFast) {
  const Goal goal = parse_goal({.target = "loss=1", .targets = "", .metric = ""}, kKnown, true);
  plan::PlanPoints points;
  const auto add = [&points](double rate, std::int64_t updates, bool reached, bool diverged) {
    plan::PointRun run;
    run.batch = 16, run.learning_rate = rate, run.seed = 1, run.updates = updates;
    run.diverged = diverged;
    if (reached) run.reached = {{1.0, updates}};
    points.runs.push_back(run);
  };
  add(0.1, 100, true, false);
  add(0.01, 300, false, false);
  add(0.02, 299, false, false);
  add(0.03, 350, true, false);
  add(1.0, 7, false, true);
  EXPECT_FALSE(is_hopeless(points, goal, 16, 0.1));
  EXPECT_TRUE(is_hopeless(points, goal, 16, 0.01));
  EXPECT_FALSE(is_hopeless(points, goal, 16, 0.02));
  EXPECT_FALSE(is_hopeless(points, goal, 16, 0.03));
  EXPECT_TRUE(is_hopeless(points, goal, 16, 1.0));
  EXPECT_FALSE(is_hopeless(points, goal, 32, 0.01));  // another batch
}

TEST(PlanRuns, AreComparedWithTheBestRateAtItsWorstSeed) {
  const Goal goal = parse_goal({.target = "loss=1", .targets = "", .metric = ""}, kKnown, true);
  plan::PlanPoints points;
  const auto add = [&points](std::int64_t batch, double rate, std::int64_t updates, bool reached,
                             plan::Stop stopped = plan::Stop::none) {
    plan::PointRun run;
    run.batch = batch, run.learning_rate = rate, run.updates = updates, run.stopped = stopped;
    run.seed = points.runs.size();
    if (reached) run.reached = {{1.0, updates}};
    points.runs.push_back(run);
  };
  EXPECT_FALSE(updates_of_best(points, goal, 16));
  EXPECT_FALSE(first_rate(points, goal, 16));
  EXPECT_FALSE(updates_by_neighbors(points, goal, 16));
  add(16, 0.1, 100, true);
  add(16, 0.1, 140, true);
  add(16, 0.1, 500, false, plan::Stop::budget);  // says nothing
  add(16, 0.2, 90, true);
  add(16, 0.2, 150, true);
  EXPECT_EQ(updates_of_best(points, goal, 16), 140);
  EXPECT_EQ(updates_of_best(points, goal, 16, 0.1), 150);
  add(16, 0.05, 419, false, plan::Stop::limit);
  EXPECT_FALSE(is_hopeless(points, goal, 16, 0.05));
  add(16, 0.05, 420, false, plan::Stop::limit);
  EXPECT_TRUE(is_hopeless(points, goal, 16, 0.05));
  add(16, 0.1, 600, false, plan::Stop::limit);
  EXPECT_EQ(updates_of_best(points, goal, 16), 150);
  points.runs.pop_back();

  EXPECT_EQ(first_rate(points, goal, 16), 0.1);
  EXPECT_EQ(first_rate(points, goal, 20), 0.1);  // of the smaller one the best
  add(16, 0.08, 300, true);
  EXPECT_EQ(first_rate(points, goal, 12), 0.08);  // of the larger one the smallest
  add(64, 0.4, 60, true);
  EXPECT_EQ(first_rate(points, goal, 33), 0.4);
  // Of the smaller batch as many updates, of the larger one as many samples.
  EXPECT_EQ(updates_by_neighbors(points, goal, 1000), 60);
  EXPECT_EQ(updates_by_neighbors(points, goal, 48), 60.0 * 64 / 48);
  EXPECT_EQ(updates_by_neighbors(points, goal, 17), 140);
  EXPECT_EQ(updates_by_neighbors(points, goal, 8), 140.0 * 16 / 8);
}

TEST(PlanRuns, DivergeWhenLossesStayFarAboveTheFirst) {
  const auto with = [](std::vector<double> losses) {
    std::vector<TrialMetrics::Update> updates;
    for (const double loss : losses) updates.push_back({1, loss, 0, 0});
    return is_leaving(updates);
  };
  EXPECT_TRUE(with({2, 21, 30, 21}));
  EXPECT_FALSE(with({2, 21, 30, 20}));
  EXPECT_FALSE(with({30, 30, 30}));
  // One sample whose loss is next to nothing says nothing of the others.
  EXPECT_FALSE(with({1e-6, 2, 3, 2}));
  EXPECT_TRUE(with({1e-6, 11, 12, 11}));
}

// Whoever is killed in between leaves a folder that the next one knows by its lock.
TEST(TrialFolders, TheLockOfOneIsTheLastToGo) {
  const test::Scratch scratch;
  const TrialFolders folders(scratch.path());
  const Descriptor events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  {
    const TrialFolder folder = folders.fresh();
    for (const char* file : {"a", "m", "z"}) test::spill(folder.path() + "/" + file, "x");
    std::filesystem::create_directories(folder.path() + "/run/checkpoints");
    ASSERT_GE(::inotify_add_watch(events.get(), folder.path().c_str(), IN_DELETE), 0);
  }
  alignas(inotify_event) char buffer[4096];
  const ssize_t size = ::read(events.get(), buffer, sizeof buffer);
  std::vector<std::string> gone;
  for (ssize_t at = 0; at < size;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
    if ((event->mask & IN_DELETE) != 0) gone.emplace_back(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  ASSERT_EQ(gone.size(), 5u);
  EXPECT_EQ(gone.back(), "lock");
}

}  // namespace
}  // namespace convoy::cli
