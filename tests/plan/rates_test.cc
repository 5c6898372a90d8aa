// The law of updates where several learning rates were tried.
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/plan/update_fit.h"
#include "tests/plan/synthetic.h"

namespace {

using namespace convoy::plan;
using namespace convoy::plan::test;
using convoy::RandomStream;

// Of three rates that are equally good the best is the one that was luckiest.
TEST(RatesOfAFit, OfEqualRatesTheLuckiestDoesNotMakeUpdatesFewer) {
  Training equal{{1000, 64000}, {4, 64, 1024}, 3, log_normal(0.16), {0.5, 1, 2}, 0};
  double sum = 0, squares = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    RandomStream random(40, static_cast<std::uint64_t>(trial));
    const UpdateFit fit = fit_updates(equal.runs(random), {39, 1});
    const double off = updates_to_target(fit.law, 64) / 2000;
    sum += off, squares += off * off;
    EXPECT_TRUE(fit.envelope[1].runs == 3);
  }
  const double mean = sum / kTrials;
  const double error = std::sqrt((squares / kTrials - mean * mean) / kTrials);
  EXPECT_LT(error, 0.005);
  EXPECT_NEAR(mean, 1, 0.01 + 3 * error);
}

TEST(RatesOfAFit, SaysWhereTheRunsThatChoseARateAreAllThatThereIs) {
  const std::string said = "at batch 4, 64 the learning rate is chosen by the same run";
  std::vector<UpdateRun> runs;
  const auto add = [&runs](std::int64_t batch, double rate, std::uint64_t seed,
                           std::int64_t updates) {
    runs.push_back({batch, rate, seed, updates, true, false});
  };
  for (const double rate : {0.1, 0.2}) {
    add(4, rate, 1, rate < 0.15 ? 17000 : 18000);
    add(64, rate, 1, rate < 0.15 ? 2100 : 2000);
    add(1024, rate, 1, rate < 0.15 ? 5000 : 1060);  // one is clearly the best
  }
  EXPECT_TRUE(mentions(fit_updates(runs, kQuick).warnings, said));
  EXPECT_EQ(fit_updates(runs, kQuick).envelope[1].runs, 1);
  for (const std::int64_t batch : {4, 64}) {
    for (const double rate : {0.1, 0.2}) add(batch, rate, 2, batch == 4 ? 17500 : 2050);
  }
  const UpdateFit two = fit_updates(runs, kQuick);
  EXPECT_FALSE(mentions(two.warnings, "is chosen by the same run"));
  // By the second seed both are as good, and by the first one 0.1 is better with 4 and 0.2 with 64:
  // of the first seed the runs at 0.1 count, the first of equals, of the second those.
  EXPECT_EQ(two.envelope[0].runs, 2);
  EXPECT_EQ(two.envelope[1].runs, 2);
  EXPECT_NEAR(two.envelope[0].updates, std::sqrt(17000. * 17500), 0.01 * 17250);
  EXPECT_NEAR(two.envelope[1].updates, std::sqrt(2100. * 2050), 0.01 * 2075);
  EXPECT_EQ(two.envelope[1].learning_rate, 0.2);
}

}  // namespace
