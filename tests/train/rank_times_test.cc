// Times of all ranks, on as many as the job has.
#include "train/logging/rank_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "convoy/base/clock.h"
#include "tests/base/patience.h"
#include "tests/train/trainer_fixture.h"
#include "train/logging/outputs.h"

namespace convoy::train {
namespace {

class RankTimesTest : public TrainerTest {};

// A rank goes on by itself on steps without a gathering, and on the one that begins it.
TEST_F(RankTimesTest, OnlyGatheringsMeetOthers) {
  const auto mine = static_cast<double>(all().rank());
  RankTimes times(all(), 10);
  const auto pass = [&](int from, int to) {
    for (int step = from; step <= to; ++step)
      EXPECT_FALSE(times.add(step, {1, 2, mine, 4, 5})) << step;
  };
  if (first()) pass(1, 10);
  all().barrier();
  if (!first()) pass(1, 10);
  const auto gathered = times.add(11, {1, 1, 1, 1, 1});
  ASSERT_TRUE(gathered);
  EXPECT_EQ(gathered->step, 10);
  EXPECT_EQ(gathered->steps, 10);
  ASSERT_EQ(gathered->ranks.size(), static_cast<std::size_t>(all().size()));
  for (std::size_t rank = 0; rank < gathered->ranks.size(); ++rank) {
    const PhaseSeconds expected{10, 20, 10 * static_cast<double>(rank), 40, 50};
    EXPECT_EQ(gathered->ranks[rank], expected);
  }
  pass(12, 14);
  const auto rest = times.finish();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->step, 14);
  EXPECT_EQ(rest->steps, 4);
  EXPECT_FALSE(times.finish());
}

// What one costs; printed, since it depends on the machine.
TEST_F(RankTimesTest, Cost) {
  constexpr int kGatherings = 300;
  RankTimes times(all(), 1);
  std::vector<double> costs;
  volatile double work = 0;
  for (int step = 1; step <= kGatherings; ++step) {
    if (const auto gathered = times.add(step, {1, 1, 1, 1, 1})) costs.push_back(gathered->cost_s);
    for (int i = 0; i < 100'000; ++i) work = work + i;  // the next step, whose ranks meet
    std::array<double, 1000> gradients{};
    all().allreduce(comm::buffer_of(gradients), comm::ReduceOp::sum);
  }
  while (times.finish()) {
  }
  std::nth_element(costs.begin(), costs.begin() + kGatherings / 2, costs.end());
  if (first())
    std::printf("gathering times of %d ranks: median %.1f us\n", all().size(),
                1e6 * costs[kGatherings / 2]);
}

TEST_F(RankTimesTest, AreInTheMetrics) {
  const auto steps_of = [this](const std::string& name, const std::string& every) {
    const Recipe r = recipe(name, {"output.rank_times_every_steps=" + every});
    train(r);
    all().barrier();  // rank 0 has written the last
    std::vector<std::pair<int, int>> steps;
    for (const auto& row : rows(r, "ranks")) {
      steps.emplace_back(row["step"], row["steps"]);
      for (const char* key : kPhaseKeys)
        EXPECT_EQ(row[key].size(), static_cast<std::size_t>(all().size())) << key;
      EXPECT_GT(row["forward_s"][0].get<double>(), 0);
    }
    return steps;
  };
  using Steps = std::vector<std::pair<int, int>>;
  EXPECT_EQ(steps_of("four", "4"), (Steps{{4, 4}, {8, 4}, {12, 4}, {16, 4}, {18, 2}}));
  EXPECT_EQ(steps_of("ten", "10"), (Steps{{10, 10}, {18, 8}}));
  EXPECT_EQ(steps_of("all", "18"), (Steps{{18, 18}}));
  EXPECT_EQ(steps_of("never", "0"), Steps());
}

// A row of theirs covers several gatherings: what is left of these at the end is a row as well.
TEST_F(RankTimesTest, OfManyRanksAreAllInTheMetrics) {
  if (!first()) return;
  const Recipe r = recipe("many");
  std::filesystem::create_directories(r.output.folder);
  {
    Outputs outputs(r, r.output.folder, -1, false, false, "images", true, Log());
    for (const std::int64_t step : {10, 20, 30}) {
      const std::vector<PhaseSeconds> ranks(128, {0.1, 0.1, 0.1, 0.1, 0.1});
      outputs.ranks({.step = step, .steps = 10, .ranks = ranks, .cost_s = 0}, test_world());
    }
    Moment last;
    last.step = 30;
    outputs.end(last, "done");
  }
  const auto written = rows(r, "ranks");
  ASSERT_EQ(written.size(), 2u);
  EXPECT_EQ(written[0]["step"], 20);
  EXPECT_EQ(written[0]["steps"], 20);
  EXPECT_EQ(written[1]["step"], 30);
  EXPECT_EQ(written[1]["steps"], 10);
}

TEST_F(RankTimesTest, HowARunEndedIsInTheMetrics) {
  const Recipe r = recipe("end");
  train(r, 7);
  all().barrier();
  ASSERT_EQ(rows(r, "end").size(), 1u);
  EXPECT_EQ(rows(r, "end")[0]["step"], 7);
  EXPECT_EQ(rows(r, "end")[0]["how"], "stopped");
  all().barrier();
  train(r, 0, "latest");
  all().barrier();
  ASSERT_EQ(rows(r, "end").size(), 2u);
  EXPECT_EQ(rows(r, "end")[1]["step"], 18);
  EXPECT_EQ(rows(r, "end")[1]["how"], "done");
}

class SlowRankTest : public TrainerTest, public testing::WithParamInterface<const char*> {};

// Where the statistics of batch normalization are those of all ranks, the others wait in forward.
// After how many steps a rank is named is SlowRankWatch's affair, whose tests have no clock. Here
// the slow rank takes far longer than what a busy machine does to the others, and the run lasts
// until it is named.
TEST_P(SlowRankTest, IsNamedWithItsPhase) {
  if (all().size() == 1) return;
  const int slow = all().size() - 1;
  constexpr auto kPause = std::chrono::milliseconds(200);
  const Recipe r = recipe(
      "slow", {"training.epochs=100000", "checkpoint.every_epochs=0", "evaluation.every_epochs=0",
               "training.batch=24", "model.options.norm=true", "output.rank_times_every_steps=2",
               std::string("sync.batch_norm=") + GetParam()});
  const auto named = [&] {
    std::vector<nlohmann::json> found = rows(r, "slow_rank");
    std::erase_if(found, [&](const nlohmann::json& row) { return row["rank"] != slow; });
    return found;
  };
  if (all().rank() == slow) calls_->pause = kPause;
  TrainerOptions options;
  options.progress = false;
  const auto start = Clock::now();
  if (first()) {
    options.should_stop = [&] {
      return !named().empty() || seconds_since(start) > test::patience_s();
    };
  }
  Trainer(test_world(), registry_, r, options).run();
  calls_->pause = {};
  all().barrier();
  ASSERT_EQ(named().size(), 1u);
  const nlohmann::json row = named().front();
  EXPECT_EQ(row["phase"], "forward");
  EXPECT_EQ(row["host"], test_world().host(slow));
  EXPECT_GE(row["own_s"].get<double>(), std::chrono::duration<double>(kPause).count());
}

INSTANTIATE_TEST_SUITE_P(BatchNorm, SlowRankTest, testing::Values("local", "synchronized"));

}  // namespace
}  // namespace convoy::train
