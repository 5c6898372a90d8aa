// Fits of measurements: what they find, what they leave out, what they warn of.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "plan/robust.h"
#include "tests/base/scratch.h"
#include "tests/plan/synthetic.h"

namespace {

using namespace convoy::plan;
using namespace convoy::plan::test;
using convoy::RandomStream;
using convoy::UsageError;
using convoy::test::message_of;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A training whose updates divide evenly.
Training training() { return {{1000, 64000}, {1, 4, 16, 64, 256}, 4, log_normal(0.1)}; }

TEST(Robust, CensoredScoresAreMeansOverTheNormalTail) {
  for (const double c : {-5.0, -1.345, -1.0, 0.0, 0.9, 1.3, 1.345, 3.0}) {
    double weight = 0, score = 0, square = 0;
    const double step = 1e-4;
    for (double z = c + step / 2; z < 9; z += step) {
      weight += normal_density(z) * step;
      score += normal_density(z) * huber(z) * step;
      square += normal_density(z) * huber(z) * huber(z) * step;
    }
    const CensoredScore known = censored_score(c);
    EXPECT_NEAR(weight, normal_above(c), 1e-7);
    EXPECT_NEAR(known.score, score / weight, 1e-6) << c;
    EXPECT_NEAR(known.square, square / weight, 1e-6) << c;
    const double slope = (censored_score(c + 1e-5).score - censored_score(c - 1e-5).score) / 2e-5;
    if (c != kHuber) {
      EXPECT_NEAR(known.slope, slope, 1e-4) << c;
    }
  }
  EXPECT_NEAR(censored_score(-9).square, kMeanSquare, 1e-12);
  EXPECT_NEAR(1 - 2 * normal_above(kHuber), kMeanSlope, 1e-12);
}

TEST(Robust, DrawsOfTheNormalTailHaveItsMean) {
  for (const double c : {-2.0, 0.0, 0.5, 3.0}) {
    RandomStream random(3);
    double sum = 0;
    for (int i = 0; i < 20000; ++i) {
      const double z = normal_draw_above(c, random);
      ASSERT_GT(z, c);
      sum += z;
    }
    EXPECT_NEAR(sum / 20000, normal_density(c) / normal_above(c), 0.03) << c;
  }
}

TEST(Robust, FindsHowScatterGoesWithSize) {
  for (const double trend : {-0.2, 0.0, 0.3}) {
    RandomStream random(4);
    std::vector<Residuals> residuals;
    for (const double u : {0.0, 2.0, 4.0}) {
      Residuals group{u, {}, {}};
      for (int i = 0; i < 3000; ++i) {
        const double r = std::exp(trend * u - 1) * normal_draw(random);
        const double stop = std::exp(trend * u - 1);  // a sixth is beyond it
        (r > stop ? group.stopped : group.reached).push_back(std::min(r, stop));
      }
      residuals.push_back(group);
    }
    EXPECT_NEAR(scatter_trend(residuals), trend, 0.02);
    const std::vector<double> scales = scatter_scales(residuals, trend);
    EXPECT_DOUBLE_EQ(scales[1], 1);
    EXPECT_DOUBLE_EQ(scales[2] / scales[0], std::exp(4 * trend));
    for (Residuals& group : residuals) group.reached.resize(1), group.stopped.clear();
    EXPECT_LT(std::abs(scatter_trend(residuals)), 0.06) << "three say nearly nothing";
  }
}

TEST(Robust, IntervalsArePercentilesOfDraws) {
  std::vector<double> draws;
  for (int i = 1; i <= 199; ++i) draws.push_back((i * 77) % 200);
  const Interval interval = interval_of(draws);
  EXPECT_EQ(interval.low, 5);
  EXPECT_EQ(interval.high, 195);
  EXPECT_TRUE(interval.contains(5) && interval.contains(195) && !interval.contains(4.9));
  draws.assign(39, kInfinity);
  draws[7] = 1;
  EXPECT_EQ(interval_of(draws).low, 1);
  EXPECT_EQ(interval_of(draws).high, kInfinity);
  draws[8] = std::nan("");
  EXPECT_THROW((void)interval_of(draws), UsageError);
  draws.resize(38);
  EXPECT_THROW((void)interval_of(draws), UsageError);
}

TEST(UpdateFit, FindsTheExactLaw) {
  Training exact = training();
  exact.noise = kExact;
  RandomStream random(1);
  const UpdateFit fit = fit_updates(exact.runs(random), kQuick);
  EXPECT_NEAR(fit.law.updates_at_infinity, 1000, 1e-3);
  EXPECT_NEAR(fit.law.noise_sensitivity, 64000, 1e-1);
  EXPECT_TRUE(fit.trusted);
  EXPECT_TRUE(fit.warnings.empty());
  ASSERT_EQ(fit.envelope.size(), 5u);
  EXPECT_EQ(fit.envelope[1].batch, 4);
  EXPECT_EQ(fit.envelope[1].runs, 4);
  EXPECT_NEAR(fit.envelope[1].updates, 17000, 1e-1);
  EXPECT_NEAR(fit.envelope[1].fitted, 17000, 1e-1);
}

TEST(UpdateFit, IsTheSameEveryTimeAndInAnyOrder) {
  RandomStream random(2);
  std::vector<UpdateRun> runs = training().runs(random);
  const UpdateFit once = fit_updates(runs, kQuick);
  const UpdateFit again = fit_updates(runs, kQuick);
  EXPECT_EQ(once.draws, again.draws);
  EXPECT_NE(once.draws, fit_updates(runs, {199, 2}).draws);
  std::reverse(runs.begin(), runs.end());
  const UpdateFit reversed = fit_updates(runs, kQuick);
  EXPECT_NEAR(reversed.law.updates_at_infinity, once.law.updates_at_infinity, 1e-4);
}

TEST(UpdateFit, TakesTheBestRateOfEveryBatch) {
  RandomStream random(3);
  Training rates = training();
  rates.rates = {0.25, 1, 4};
  std::vector<UpdateRun> runs = rates.runs(random);
  const UpdateFit fit = fit_updates(runs, kQuick);
  for (const EnvelopePoint& point : fit.envelope) {
    EXPECT_DOUBLE_EQ(point.learning_rate, 0.01 * std::sqrt(static_cast<double>(point.batch)));
    // What the others cost: exp(log(4)^2) times as many.
    ASSERT_EQ(point.others.size(), 2u);
    for (const EnvelopePoint::OtherRate& other : point.others) {
      EXPECT_NEAR(std::fabs(std::log(other.learning_rate / point.learning_rate)), std::log(4),
                  1e-9);
      EXPECT_NEAR(std::log(other.times), std::log(4) * std::log(4), 0.5);
    }
  }
  EXPECT_TRUE(fit.updates_at_infinity.interval.contains(1000));

  EXPECT_NEAR(learning_rate_for(fit.envelope, 64), 0.08, 1e-12);
  const std::vector<EnvelopePoint> tried{{.batch = 8, .learning_rate = 0.5, .reached = 1},
                                         {.batch = 16, .learning_rate = 0.015625, .reached = 1},
                                         {.batch = 64, .learning_rate = 4e-308, .reached = 1}};
  EXPECT_EQ(learning_rate_for(tried, 16), 0.015625) << "as it was tried";
  EXPECT_GT(learning_rate_for(tried, 63.999), 0) << "too small for four digits";
  EXPECT_EQ(learning_rate_for(fit.envelope, 32), 0.05657) << "between, to four digits";
  EXPECT_NEAR(learning_rate_for(fit.envelope, 1e6), 0.16, 1e-12) << "not extrapolated";
  EXPECT_THROW((void)learning_rate_for(fit.envelope, 0.5), UsageError);

  // Nor is a rate that never reached the target.
  std::vector<UpdateRun> stopped = runs;
  for (UpdateRun& run : stopped) {
    if (run.batch != 64 && run.batch != 256) continue;
    run.reached = false;
    if (run.learning_rate == 0.01 * 4 * std::sqrt(static_cast<double>(run.batch)))
      run.updates *= 1000;  // ran longest
  }
  const UpdateFit half = fit_updates(stopped, kQuick);
  ASSERT_EQ(half.envelope.back().reached, 0);
  EXPECT_NEAR(learning_rate_for(half.envelope, 1e6), 0.04, 1e-12) << "that of batch 16";
  EXPECT_NEAR(learning_rate_for(half.envelope, 64), 0.04, 1e-12);
  for (UpdateRun& run : stopped) {
    if (run.batch == 256) run.reached = true, run.updates = 1250;
  }
  const UpdateFit ends = fit_updates(stopped, kQuick);
  const double end = ends.envelope.back().learning_rate;
  EXPECT_NEAR(learning_rate_for(ends.envelope, 64), std::sqrt(0.04 * end), 1e-12) << "half-way";
  EXPECT_THROW((void)learning_rate_for({half.envelope.back()}, 64), UsageError);
  EXPECT_THROW((void)learning_rate_for({}, 64), UsageError);

  // A rate that diverges, be it once, is not used, however fast it is otherwise.
  for (UpdateRun& run : runs) {
    if (run.batch == 16 && run.learning_rate == 0.04 && run.seed == 2) run.diverged = true;
  }
  const UpdateFit other = fit_updates(runs, kQuick);
  EXPECT_NE(other.envelope[2].learning_rate, 0.04);
  // Without any rate a batch is left out.
  for (UpdateRun& run : runs) run.diverged |= run.batch == 16;
  const UpdateFit without = fit_updates(runs, kQuick);
  EXPECT_EQ(without.envelope.size(), 4u);
  EXPECT_TRUE(mentions(without.warnings, "every learning rate diverged at batch 16"));
}

TEST(UpdateFit, CensoredRunsCountWithWhatIsKnownOfThem) {
  // Left out or taken for their stops, runs at M = 4 that a limit stopped would make alpha too low.
  Training censored{{1000, 64000}, {4, 16, 64, 256, 1024}, 400, log_normal(0.3), {1}, 1, 16000, 0};
  RandomStream random(4);
  std::vector<UpdateRun> runs = censored.runs(random);
  const UpdateFit fit = fit_updates(runs, kQuick);
  EXPECT_GT(fit.envelope[0].runs, fit.envelope[0].reached * 3 / 2);
  EXPECT_NEAR(fit.law.noise_sensitivity / 64000, 1, 0.05);
  EXPECT_NEAR(fit.law.updates_at_infinity / 1000, 1, 0.05);
  for (UpdateRun& run : runs) run.reached = true;
  EXPECT_LT(fit_updates(runs, kQuick).law.noise_sensitivity, 0.95 * 64000);
}

TEST(UpdateFit, ABatchThatNeverReachedTheTargetSaysAtLeast) {
  Training limited = training();
  limited.limit = 30000;  // M = 1 takes 65000
  limited.seeds = 6;
  RandomStream random(5);
  const UpdateFit fit = fit_updates(limited.runs(random), kQuick);
  ASSERT_EQ(fit.envelope.size(), 5u);
  EXPECT_EQ(fit.envelope[0].reached, 0);
  EXPECT_EQ(fit.envelope[0].updates, kInfinity);
  EXPECT_NEAR(fit.envelope[0].fitted / 65000, 1, 0.2);
  EXPECT_TRUE(fit.noise_sensitivity.interval.contains(64000));
}

TEST(UpdateFit, WarnsOfARateThatWasStoppedTooEarly) {
  RandomStream random(6);
  std::vector<UpdateRun> runs = training().runs(random);
  runs.push_back({64, 0.5, 0, 100, false, false});
  EXPECT_TRUE(mentions(fit_updates(runs, kQuick).warnings,
                       "runs at batch 64, learning rate 0.5 were stopped before"));
  runs.back().updates = 5000;  // 2000 is what the better rate takes
  EXPECT_FALSE(mentions(fit_updates(runs, kQuick).warnings, "were stopped before"));
}

TEST(UpdateFit, WarnsWhereTheBestRateIsAtAnEnd) {
  RandomStream random(6);
  std::vector<UpdateRun> runs = training().runs(random);
  const double rate = 0.08;  // of batch 64
  const auto warnings = [&](const std::vector<double>& others) {
    std::vector<UpdateRun> all = runs;
    for (const double other : others) all.push_back({64, other * rate, 0, 5000, false, false});
    return fit_updates(all, kQuick).warnings;
  };
  EXPECT_TRUE(mentions(warnings({0.5}),
                       "the best learning rate is the largest that was tried, "
                       "at batch 64: try larger"));
  EXPECT_TRUE(mentions(warnings({2}), "the best learning rate is the smallest that was tried"));
  EXPECT_TRUE(warnings({0.5, 2}).empty());
}

TEST(UpdateFit, ARunFarOffMovesItLittle) {
  RandomStream random(7);
  std::vector<UpdateRun> runs = training().runs(random);
  const UpdateFit clean = fit_updates(runs, kQuick);
  runs[17].updates *= 100;
  const UpdateFit fit = fit_updates(runs, kQuick);
  const double error = clean.updates_at_infinity.interval.high - clean.law.updates_at_infinity;
  EXPECT_NEAR(fit.law.updates_at_infinity, clean.law.updates_at_infinity, error);
  EXPECT_NEAR(fit.law.noise_sensitivity / clean.law.noise_sensitivity, 1, 0.1);
}

TEST(UpdateFit, DoesNotTrustALawWithoutAFloor) {
  // As the paper saw with Adam: the updates fall faster than the batch grows.
  Training steep{{-40, 64000}, {1, 4, 16, 64, 256, 1024}, 4, log_normal(0.1)};
  RandomStream random(8);
  const UpdateFit fit = fit_updates(steep.runs(random), kQuick);
  EXPECT_LT(fit.law.updates_at_infinity, 0);
  EXPECT_FALSE(fit.trusted);
  EXPECT_TRUE(mentions(fit.warnings, "not surely above 0; the largest measured batch"));
  // Above 0, but perhaps by chance: all batches so small that the floor isn't seen.
  Training small{{100, 640000}, {1, 4, 16, 64}, 4, log_normal(0.1)};
  const UpdateFit unsure = fit_updates(small.runs(random), kQuick);
  EXPECT_LT(unsure.updates_at_infinity.interval.low, 0);
  EXPECT_GT(unsure.updates_at_infinity.interval.high, 0);
  EXPECT_FALSE(unsure.trusted);
}

TEST(UpdateFit, SaysWhereTheLawDoesNotFit) {
  std::vector<UpdateRun> runs;
  RandomStream random(9);
  const Noise noise = log_normal(0.05);
  for (const std::int64_t batch : {1, 4, 16, 64, 256, 1024}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const double mean = 30000 / std::sqrt(static_cast<double>(batch));  // no 1/M
      runs.push_back({batch, 0.1, seed, std::llround(mean * noise(random)), true, false});
    }
  }
  const UpdateFit fit = fit_updates(runs, kQuick);
  EXPECT_LT(fit.lack_of_fit, 0.01);
  EXPECT_FALSE(fit.trusted);
  EXPECT_TRUE(mentions(fit.warnings, "N_inf + alpha/M does not describe the updates"));
  double largest = 0;
  for (const EnvelopePoint& point : fit.envelope) {
    largest = std::max(largest, std::abs(point.residual));
  }
  EXPECT_GT(largest, 2);
}

TEST(UpdateFit, SaysWhereNothingTestsTheLaw) {
  const auto warned = [](const std::vector<std::int64_t>& batches, int seeds) {
    Training some{{1000, 64000}, batches, seeds, log_normal(0.05)};
    RandomStream random(12);
    return mentions(fit_updates(some.runs(random), kQuick).warnings, "nothing tests whether N_inf");
  };
  EXPECT_TRUE(warned({4, 64, 1024}, 1));
  EXPECT_TRUE(warned({4, 1024}, 5));
  EXPECT_FALSE(warned({4, 64, 1024}, 2));
}

TEST(UpdateFit, MoreUpdatesWithLargerBatchesMeanNoAlpha) {
  std::vector<UpdateRun> runs;
  for (const std::int64_t batch : {1, 2, 4}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      runs.push_back(
          {batch, 0.1, seed, 1000 + 10 * batch + static_cast<std::int64_t>(seed), true, false});
    }
  }
  const UpdateFit fit = fit_updates(runs, kQuick);
  EXPECT_EQ(fit.law.noise_sensitivity, 0);
  EXPECT_NEAR(fit.law.updates_at_infinity, 1024, 10);
  EXPECT_GE(fit.noise_sensitivity.interval.low, 0);
  EXPECT_TRUE(mentions(fit.warnings, "the runs do not tell that updates get fewer"));
}

TEST(UpdateFit, RefusesWhatIsNoneOrTooFew) {
  const auto message = [](const std::vector<UpdateRun>& runs) {
    return message_of<UsageError>([&] { (void)fit_updates(runs, kQuick); });
  };
  const std::vector<UpdateRun> good = {
      {1, 0.1, 0, 300, true, false}, {2, 0.1, 0, 200, true, false}, {2, 0.1, 1, 210, true, false}};
  EXPECT_EQ(message(good), "");
  EXPECT_EQ(message({}),
            "the target was reached by 0 runs at 0 batches; a fit needs at least 3 runs, "
            "at two or more batches");
  EXPECT_EQ(message({{8, 0.1, 0, 300, false, false}, {16, 0.2, 0, 500, false, false}}),
            "the target was reached by 0 runs at 0 batches; a fit needs at least 3 runs, at two or "
            "more batches; the longest run, batch 16, learning rate 0.2, had 500 updates");
  // Three runs, of which a fit can take two: nothing would say how far they scatter.
  std::vector<UpdateRun> rates = {{16, 0.1, 0, 1500, true, false},
                                  {16, 0.2, 0, 1900, true, false},
                                  {256, 0.1, 0, 900, true, false}};
  EXPECT_EQ(message(rates),
            "the target was reached by 2 runs at 2 batches with the learning rates that are best "
            "for them (and by 1 with others); a fit needs at least 3 runs, at two or more batches; "
            "the longest run, batch 16, learning rate 0.2, had 1900 updates");
  rates.push_back({16, 0.1, 1, 1550, true, false});
  EXPECT_EQ(message(rates), "");
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<UpdateRun> bad = good;
    if (i == 0) bad[0].batch = 0;
    if (i == 1) bad[0].batch = 2;  // one batch only
    if (i == 2) bad[0].updates = 0;
    if (i == 3) bad[0].learning_rate = std::nan("");
    EXPECT_NE(message(bad), "") << i;
  }
  EXPECT_THROW((void)fit_updates(good, {38, 0}), UsageError);
}

// Nothing where too few runs reached the target, which is all that may be wrong with them.
std::optional<UpdateFit> fit_if_reached(const std::vector<UpdateRun>& runs,
                                        const FitOptions& options) {
  try {
    return fit_updates(runs, options);
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("the target was reached by "), 0u) << error.what();
    return std::nullopt;
  }
}

// A round of the bootstrap may draw all runs of a batch as stopped: its end says nothing then.
TEST(UpdateFit, EndsInNumbersForFewRunsOfWhichOneWasStopped) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomStream random(11, seed);
    std::vector<UpdateRun> runs;
    for (const std::int64_t batch : {20, 80}) {
      for (std::uint64_t i = 1; i <= 3; ++i) {
        UpdateRun run;
        run.batch = batch, run.learning_rate = 0.02, run.seed = i;
        run.updates = 1 + static_cast<std::int64_t>(random.below(3));
        run.reached = random.below(5) != 0;
        runs.push_back(run);
      }
    }
    const auto fit = fit_if_reached(runs, {99, seed});
    if (!fit) continue;
    for (const UpdateLaw& draw : fit->draws) {
      ASSERT_TRUE(std::isfinite(draw.updates_at_infinity)) << seed;
      ASSERT_TRUE(std::isfinite(draw.noise_sensitivity)) << seed;
    }
  }
}

// Whatever is measured, fits end in numbers: few runs, equal ones, and some of any size.
TEST(UpdateFit, EndsInNumbersForAnyRuns) {
  int fits = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    RandomStream random(10, seed);
    std::vector<UpdateRun> runs;
    const double spread = 12 * random.uniform() * random.uniform();
    const double stopped = random.uniform() * random.uniform();
    const std::uint64_t count = 3 + random.below(25);
    for (std::uint64_t i = 0; i < count; ++i) {
      UpdateRun run;
      run.batch = std::int64_t{1} << random.below(1 + random.below(11));
      run.learning_rate = random.below(3) == 0 ? 0.1 : 0.2;
      run.updates = std::llround(std::exp(spread * random.uniform() + 3 * random.uniform()));
      run.reached = random.uniform() >= stopped;
      run.diverged = random.below(20) == 0;
      runs.push_back(run);
    }
    const auto made = fit_if_reached(runs, {39, seed});
    if (!made) continue;
    const UpdateFit& fit = *made;
    ++fits;
    ASSERT_TRUE(std::isfinite(fit.law.updates_at_infinity)) << seed;
    ASSERT_TRUE(std::isfinite(fit.law.noise_sensitivity)) << seed;
    ASSERT_GE(fit.noise_sensitivity.interval.low, 0) << seed;
    ASSERT_FALSE(std::isnan(fit.updates_at_infinity.interval.high)) << seed;
    ASSERT_TRUE(fit.scatter > 0 && fit.scatter < 1000) << seed;  // runs are at most e^15 apart
    ASSERT_TRUE(fit.lack_of_fit > 0 && fit.lack_of_fit <= 1) << seed;
    for (const EnvelopePoint& point : fit.envelope) {
      ASSERT_TRUE(point.fitted > 0 && point.updates > 0) << seed;
      ASSERT_TRUE(std::isfinite(point.residual)) << seed;
    }
  }
  EXPECT_GT(fits, 200);
}

}  // namespace
