// How a plan's trainings begin and end, and what of them is kept.
#include <algorithm>
#include <fstream>

#include "convoy/base/error.h"
#include "tests/cli/fake_plan.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;
using plan::Stop;

class PlanTrainings : public FakePlan {
 protected:
  int train(PlanFolder& folder, const std::vector<WantedRun>& wanted, const RunLimits& limits,
            std::vector<Place> places = {{{0}, ""}, {{0}, ""}}) {
    int added = 0;
    said = told([&](std::FILE* out) {
      added = measure_runs(planned, folder, wanted, limits, places, out);
    });
    return added;
  }
  // Until the budget has left time for what is expected, on a machine however slow.
  template <class Done>
  void train_briefly(PlanFolder& folder, const std::vector<WantedRun>& wanted, RunLimits limits,
                     const Done& done) {
    for (double seconds = 0.2; !done(folder.points()); seconds *= 2) {
      ASSERT_LT(seconds, kLongest_s);
      limits.deadline = in(seconds);
      train(folder, wanted, limits);
    }
  }

  // The script of trainings that get nowhere with a batch of 8 and this rate, or a larger one. They
  // wait for somebody to look at them, instead of ending by themselves before that.
  static Json stuck(double rate, bool once = false) {
    return {{"stuck", 8}, {"rate", rate}, {"hanging", 8}, {"most", 10000}, {"once", once}};
  }

  std::string said;
};

TEST_F(PlanTrainings, ThatALimitStoppedGoOnWithALargerOne) {
  PlanFolder folder = open();
  const std::vector<WantedRun> wanted{{10, 0.1, 1}};  // 60 updates to 1, 27 to 5
  EXPECT_EQ(train(folder, wanted, limits(0.4)), 1);   // 40 updates
  ASSERT_EQ(folder.points().runs.size(), 1u);
  EXPECT_EQ(folder.points().runs[0].updates, 40);
  EXPECT_EQ(folder.points().runs[0].stopped, Stop::limit);
  EXPECT_EQ(folder.points().runs[0].reached.size(), 1u);
  EXPECT_EQ(train(folder, wanted, limits(0.4)), 0);
  EXPECT_EQ(train(folder, wanted, limits(0.3)), 0);

  EXPECT_EQ(train(folder, wanted, limits(2)), 1);
  ASSERT_EQ(folder.points().runs.size(), 1u);
  EXPECT_EQ(folder.points().runs[0].reached.back(), (std::pair<double, std::int64_t>{1, 60}));
  EXPECT_EQ(folder.points().runs[0].stopped, Stop::none);
  EXPECT_EQ(train(folder, wanted, limits(4)), 0);
  EXPECT_EQ(read_points(scratch.path("plan")).runs, folder.points().runs);
}

TEST_F(PlanTrainings, ThatDivergedOrAreHopelessDont) {
  const Goal& goal = planned.goal;
  plan::PointRun run{8, 0.1, 1, 40, 1, false, {}};
  plan::PlanPoints points;
  const auto goes_on = [&](std::int64_t longest) {
    points.put(run);
    return would_go_on(run, points, goal, longest);
  };
  EXPECT_TRUE(goes_on(41));  // of a file that doesn't say why it was stopped
  EXPECT_FALSE(goes_on(40));
  run.stopped = Stop::budget;
  EXPECT_TRUE(goes_on(41));
  run.stopped = Stop::hopeless;
  points.put({8, 0.2, 1, 13, 1, false, {{5, 7}, {1, 13}}});
  EXPECT_FALSE(goes_on(41));
  points.put({8, 0.2, 2, 14, 1, false, {{5, 7}, {1, 14}}});  // with it, the other is slower
  EXPECT_TRUE(goes_on(41));
  points.put({8, 0.2, 2, 2, 1, true, {}});
  EXPECT_TRUE(goes_on(41));
  EXPECT_FALSE(goes_on(40));
  run.stopped = Stop::none;
  run.diverged = true;
  EXPECT_FALSE(goes_on(41));
  run.diverged = false;
  run.reached = {{5, 30}};
  EXPECT_TRUE(goes_on(41));
  run.reached = {{5, 30}, {1, 40}};
  EXPECT_FALSE(goes_on(41));
}

// A rate that is too large for a small batch would run as long as it may, before one that isn't.
TEST_F(PlanTrainings, AreNotHeldUpByARateThatIsTooLarge) {
  script(stuck(0.4));
  PlanFolder folder = open();
  const auto wanted = grid({8, 64}, {0.1, 0.4}, 1);
  ASSERT_EQ(wanted[1].batch, 8);
  ASSERT_EQ(wanted[1].learning_rate, 0.4);
  EXPECT_EQ(train(folder, wanted, limits(1000), {{{0}, ""}}), 4);
  const plan::PlanPoints& points = folder.points();
  ASSERT_EQ(points.runs.size(), 4u);
  EXPECT_TRUE(has(said, "batch 8, rate 0.4, seed 1: put off after ")) << said;
  const plan::PointRun* hopeless = points.find(8, 0.4, 1);
  ASSERT_NE(hopeless, nullptr);
  EXPECT_EQ(hopeless->stopped, Stop::hopeless);
  EXPECT_GE(hopeless->updates, 3 * 105 * 64 / 8);  // by what the larger batch took
  EXPECT_EQ(points.find(8, 0.1, 1)->reached.back().second, 70);
  EXPECT_EQ(train(folder, wanted, limits(1000), {{{0}, ""}}), 0);
}

// It was stopped later before, by a budget.
TEST_F(PlanTrainings, ThatWerePutOffTakeNothingFromWhatIsKnown) {
  script(stuck(0.4));
  PlanFolder folder = open();
  const plan::PointRun known{8, 0.4, 1, 1000 * 1000 / 8 - 1, 1, false, {{5, 8000}}, Stop::budget};
  folder.add(known, {});
  train(folder, grid({8, 64}, {0.1, 0.4}, 1), limits(1000), {{{0}, ""}});
  ASSERT_TRUE(has(said, "batch 8, rate 0.4, seed 1: put off after ")) << said;
  EXPECT_EQ(*folder.points().find(8, 0.4, 1), known);
  EXPECT_EQ(read_points(scratch.path("plan")).runs.size(), 4u);
}

// Where no rate gets there the one that was put off is made as long as it may be.
TEST_F(PlanTrainings, ThatWerePutOffGoOnWhereNoOtherRateIsBetter) {
  script(stuck(0.05, true));
  PlanFolder folder = open();
  EXPECT_EQ(train(folder, grid({8, 64}, {0.1, 0.2}, 1), limits(400), {{{0}, ""}}), 4);
  EXPECT_TRUE(has(said, "put off after ")) << said;
  for (const double rate : {0.1, 0.2}) {
    EXPECT_EQ(folder.points().find(8, rate, 1)->stopped, Stop::limit);
    EXPECT_EQ(folder.points().find(8, rate, 1)->updates, 400 * 1000 / 8);
  }
}

TEST_F(PlanTrainings, BeginWithTheRateOfABatchBeside) {
  script(stuck(0.4));
  PlanFolder folder = open();
  plan::PointRun known{.batch = 4, .learning_rate = 0.1, .seed = 1, .updates = 120, .reached = {}};
  known.reached = {{5, 50}, {1, 120}};
  folder.add(known, {});
  EXPECT_EQ(train(folder, grid({8}, {0.05, 0.1, 0.2, 0.4}, 1), limits(1000), {{{0}, ""}}), 4);
  std::vector<double> order;
  for (const plan::PointRun& run : folder.points().runs) order.push_back(run.learning_rate);
  EXPECT_EQ(order, (std::vector<double>{0.1, 0.1, 0.05, 0.2, 0.4}));
  EXPECT_EQ(folder.points().find(8, 0.4, 1)->stopped, Stop::hopeless);
}

TEST_F(PlanTrainings, ThatABudgetStoppedAreMadeAgain) {
  script({{"hanging", 10}, {"most", 30}});
  PlanFolder folder = open();
  const std::vector<WantedRun> wanted{{10, 0.1, 1}};
  const auto stopped = [](const plan::PlanPoints& points) {
    return !points.runs.empty() && points.runs[0].updates == 30;
  };
  train_briefly(folder, wanted, limits(100), stopped);
  EXPECT_EQ(folder.points().runs[0].stopped, Stop::budget);
  EXPECT_TRUE(has(said, "stopped at the end of the budget")) << said;
  // Stopped earlier it says less, and nothing is kept of it.
  script({{"hanging", 10}, {"most", 10}});
  EXPECT_EQ(train(folder, wanted, limits(100, in(0.2))), 0);
  EXPECT_EQ(folder.points().runs[0].updates, 30);
  script();
  EXPECT_EQ(train(folder, wanted, limits(100)), 1);
  ASSERT_EQ(folder.points().runs.size(), 1u);
  EXPECT_EQ(folder.points().runs[0].updates, 60);
  EXPECT_EQ(folder.points().runs[0].stopped, Stop::none);
}

TEST_F(PlanTrainings, WithoutAnUpdateEndWithTheBudgetAndLeaveNothing) {
  script({{"hanging", 10}, {"most", 0}});
  PlanFolder folder = open();
  EXPECT_EQ(train(folder, {{10, 0.1, 1}}, limits(100, in(0.2))), 0);
  EXPECT_TRUE(folder.points().runs.empty());
}

// A run that is made once more, evaluated more often, may not end before the budget does.
TEST_F(PlanTrainings, WhatIsKnownIsKeptWhereThereIsNoTimeForMore) {
  planned.evaluated = 450;  // every 30 updates with a batch of 10
  script({{"finest", 30}, {"most", 5}});
  PlanFolder folder = open();
  RunLimits limits = this->limits(100);
  limits.every = 0;
  train_briefly(folder, {{10, 0.1, 1}}, limits,
                [](const plan::PlanPoints& points) { return !points.runs.empty(); });
  EXPECT_EQ(folder.points().runs[0].reached.back(), (std::pair<double, std::int64_t>{1, 60}));
  EXPECT_EQ(folder.points().runs[0].stopped, Stop::none);
}

TEST_F(PlanTrainings, WhatIsKnownIsKeptWhereItFailsTheSecondTime) {
  planned.evaluated = 450;
  script({{"crashing_again", 10}});
  PlanFolder folder = open();
  RunLimits limits = this->limits(100);
  limits.every = 0;
  FailedBatches failed{3};
  std::FILE* const out = std::tmpfile();
  measure_runs(planned, folder, {{10, 0.1, 1}}, limits, {Place{{0}, ""}}, out, &failed);
  std::fclose(out);
  EXPECT_TRUE(failed.why.contains(10));
  ASSERT_EQ(folder.points().runs.size(), 1u);
  EXPECT_EQ(folder.points().runs[0].reached.back(), (std::pair<double, std::int64_t>{1, 60}));
}

TEST_F(PlanTrainings, AreAllToldToEndBeforeOneIsWaitedFor) {
  script({{"failing", 16}, {"hanging", 64}, {"most", 1}, {"told", 2}});
  PlanFolder folder = open();
  const Place place{{0}, ""};
  EXPECT_THROW(
      train(folder, {{16, 0.1, 1}, {8, 0.1, 1}, {64, 0.1, 1}}, limits(100), {place, place, place}),
      Failure);
  const std::string notes = log();
  EXPECT_EQ(std::count(notes.begin(), notes.end(), '\n'), 3 + 2 + 2) << notes;
}

// The GPU would be shared otherwise, and each run take as long as all of them.
TEST_F(PlanTrainings, TakeTurnsOnAGpu) {
  PlanFolder folder = open();
  const std::vector<WantedRun> wanted{{8, 0.1, 1}, {16, 0.1, 1}, {64, 0.1, 1}};
  EXPECT_EQ(train(folder, wanted, limits(100), places_of({0, 1}, {"3"})), 3);
  EXPECT_EQ(log(), "begin 8 3\nend\nbegin 16 3\nend\nbegin 64 3\nend\n");
}

TEST(PlanPlaces, AreCoresOrGpus) {
  const auto text = [](const std::vector<Place>& places) {
    std::string all;
    for (const Place& place : places) {
      all += "[" + place.gpu + ":";
      for (const int core : place.cores) all += " " + std::to_string(core);
      all += "]";
    }
    return all;
  };
  EXPECT_EQ(text(places_of({2, 3}, {})), "[: 2][: 3]");
  EXPECT_EQ(text(places_of({0, 1, 2, 3, 4}, {"0", "1"})), "[0: 0 1][1: 2 3 4]");
  EXPECT_EQ(text(places_of({0, 1}, {"5"})), "[5: 0 1]");
  EXPECT_EQ(text(places_of({7}, {"0", "1"})), "[0: 7][1: 7]");
  // With several threads for each; a core that is left over stays free.
  EXPECT_EQ(text(places_of({0, 1, 2, 3, 4}, {}, 2)), "[: 0 1][: 2 3]");
  EXPECT_EQ(text(places_of({2, 3}, {}, 8)), "[: 2 3]");
  EXPECT_EQ(gpu_names(2, ""), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(gpu_names(2, "4,GPU-5a"), (std::vector<std::string>{"4", "GPU-5a"}));
  EXPECT_EQ(gpu_names(1, "4,99"), std::vector<std::string>{"4"});  // the second is not there
  EXPECT_TRUE(gpu_names(0, "").empty());
}

// Or each of these tests would take ten times as long.
TEST_F(PlanTrainings, BeginWithoutLibTorch) {
  std::ifstream maps("/proc/self/maps");
  const std::string loaded{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_TRUE(has(loaded, "libconvoy_base"));
  EXPECT_FALSE(has(loaded, "libtorch"));
}

TEST_F(PlanTrainings, HalfALineOfCurvesIsCutOff) {
  const plan::PointRun run{8, 0.1, 1, 40, 1, false, {}};
  { open().add(run, {{10, 9}, {20, 8}}); }
  const std::string curves = scratch.path("plan/curves.jsonl");
  const std::string whole = test::slurp(curves);
  test::spill(curves, whole + whole.substr(0, whole.size() / 2));
  plan::PointRun second = run;
  second.seed = 2;
  { open().add(second, {{10, 7}}); }
  const std::string all = test::slurp(curves);
  EXPECT_EQ(all.substr(0, whole.size()), whole);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 2);
  EXPECT_EQ(closest_run(scratch.path("plan"), planned.goal).value, 7);
}

}  // namespace
}  // namespace convoy::cli
