// The batch that the noise of gradients names, where it is known.
#include "convoy/plan/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "convoy/base/error.h"
#include "convoy/base/random.h"

namespace convoy::plan {
namespace {

double normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// A quadratic bowl: the gradient is the distance to its bottom, x its square, and each sample adds
// noise of the variance s to it. A step with the batch B at a small part eta of the best rate.
struct Bowl {
  double s = 50, eta = 0.01, first = 10, last = 0.1;

  std::vector<NoiseMeasurement> train(double batch) const {
    std::vector<NoiseMeasurement> measured;
    for (double x = first; x > last;) {
      measured.push_back({static_cast<std::int64_t>(measured.size() + 1), x, s});
      const double rate = eta / (1 + s / x / batch);
      x += -2 * rate * x + rate * rate * (x + s / batch);
    }
    return measured;
  }
  double updates(double batch) const { return static_cast<double>(train(batch).size()); }
};

// A single training says what trainings with other batches take.
TEST(Noise, NamesTheBatchOfTheLaw) {
  const Bowl bowl;
  const double endless = bowl.updates(1e12);
  const double alpha = (bowl.updates(8) - endless) * 8;
  for (const double batch : {4.0, 32.0, 256.0}) {
    SCOPED_TRACE(batch);
    // The noise scale goes from 5 to 500.
    const NoiseFit fit = fit_noise(bowl.train(batch), batch, bowl.updates(batch), {.windows = 200});
    EXPECT_NEAR(fit.batch.value / (alpha / endless), 1, 0.02);
    EXPECT_NEAR(fit.law.updates_at_infinity / endless, 1, 0.02);
    EXPECT_NEAR(fit.law.noise_sensitivity / alpha, 1, 0.02);
    EXPECT_NEAR(updates_to_target(fit.law, batch) / bowl.updates(batch), 1, 1e-12);
    EXPECT_TRUE(fit.trusted);
    EXPECT_TRUE(fit.warnings.empty());
    // Fewer windows lose what changes within them.
    const NoiseFit few = fit_noise(bowl.train(batch), batch, bowl.updates(batch), {.windows = 5});
    EXPECT_NEAR(few.batch.value / fit.batch.value, 1, 0.15);
  }
}

// By hand: of a batch's squared norm a half is the gradient's at first, and a tenth later.
TEST(Noise, ByHand) {
  std::vector<NoiseMeasurement> measured;
  for (int i = 0; i < 12; ++i) {
    // Odd and even ones scatter about 4 and 1, of the squared norm, and about 40 and 90.
    const double off = i % 2 == 0 ? 3 : -3;
    const bool early = i < 6;
    measured.push_back({10 * (i + 1), (early ? 4 : 1) + off, (early ? 40 : 90) - 2 * off});
  }
  const NoiseFit fit = fit_noise(measured, 10, 120, {.windows = 2});
  ASSERT_EQ(fit.windows.size(), 2u);
  EXPECT_EQ(fit.windows[0].first, 10);
  EXPECT_EQ(fit.windows[0].last, 60);
  EXPECT_EQ(fit.windows[1].first, 70);
  EXPECT_EQ(fit.windows[1].measurements, 6);
  EXPECT_NEAR(fit.windows[0].scale(), 10, 1e-12);
  EXPECT_NEAR(fit.windows[1].scale(), 90, 1e-12);
  // Worth 1/2 and 1/10 of an update each.
  EXPECT_NEAR(fit.batch.value, (10 * 0.5 + 90 * 0.1) / (0.5 + 0.1), 1e-12);
  EXPECT_NEAR(fit.law.updates_at_infinity, 60 * 0.5 + 60 * 0.1, 1e-12);
  EXPECT_EQ(fit.batch.interval.low, fit.windows[0].scale());
  EXPECT_NEAR(fit.batch.interval.high, 90, 1e-12);
}

TEST(Noise, WindowsHaveTwoMeasurementsAtLeast) {
  std::vector<NoiseMeasurement> measured;
  for (int i = 0; i < 11; ++i) measured.push_back({i + 1, 1, 8});
  const NoiseFit fit = fit_noise(measured, 4, 11);
  EXPECT_EQ(fit.windows.size(), 5u);
  EXPECT_EQ(fit.windows.back().last, 11);
  EXPECT_NEAR(fit.batch.value, 8, 1e-12);
  EXPECT_NEAR(fit.batch.interval.low, 8, 1e-12);
  EXPECT_NEAR(fit.batch.interval.high, 8, 1e-12);
  EXPECT_NEAR(fit.law.updates_at_infinity, 11.0 / 3, 1e-12);
}

// Measurements scatter by as much as they are, and more; the interval of twenty windows has the
// truth in at least 90 of 100 trials.
TEST(Noise, IntervalsHoldTheTruth) {
  const Bowl bowl;
  const double truth = (bowl.updates(8) - bowl.updates(1e12)) * 8 / bowl.updates(1e12);
  const std::vector<NoiseMeasurement> exact = bowl.train(64);
  int held = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    RandomStream random(11, static_cast<std::uint64_t>(trial));
    std::vector<NoiseMeasurement> measured = exact;
    for (NoiseMeasurement& one : measured) {
      one.gradient_square *= 1 + 1.5 * normal(random);
      one.variance *= 1 + normal(random);
    }
    const NoiseFit fit = fit_noise(measured, 64, static_cast<double>(measured.size()),
                                   {.bootstrap = {.rounds = 199}});
    held += fit.batch.interval.contains(truth);
    EXPECT_TRUE(fit.trusted);
  }
  EXPECT_GE(held, kTrials * 90 / 100);
}

TEST(Noise, WhatTellsNothingIsSaid) {
  const auto fit_of = [](double gradient_square, double variance) {
    std::vector<NoiseMeasurement> measured;
    for (int i = 0; i < 40; ++i) {
      const double off = i % 4 < 2 ? 0.5 : -0.5;
      measured.push_back({i + 1, gradient_square + off, variance});
    }
    return fit_noise(measured, 16, 40);
  };
  const NoiseFit lost = fit_of(-0.1, 400);
  EXPECT_FALSE(lost.trusted);
  EXPECT_TRUE(std::isinf(lost.batch.value));
  EXPECT_EQ(lost.law.updates_at_infinity, 0);
  ASSERT_EQ(lost.warnings.size(), 1u);
  EXPECT_NE(lost.warnings[0].find("the gradient is not surely above its noise"), std::string::npos);
  const NoiseFit quiet = fit_of(100, -1);
  EXPECT_FALSE(quiet.trusted);
  EXPECT_EQ(quiet.batch.value, 0);
  ASSERT_EQ(quiet.warnings.size(), 1u);
  EXPECT_NE(quiet.warnings[0].find("the noise is not surely above 0"), std::string::npos);
  EXPECT_TRUE(std::isinf(NoiseWindow{.gradient_square = -1, .variance = 2}.scale()));
  EXPECT_EQ((NoiseWindow{.gradient_square = -1, .variance = -2}.scale()), 0);
}

TEST(Noise, Refusals) {
  std::vector<NoiseMeasurement> measured;
  for (int i = 0; i < 9; ++i) measured.push_back({i + 1, 1, 8});
  EXPECT_THROW(fit_noise(measured, 4, 9), UsageError);
  measured.push_back({9, 1, 8});
  EXPECT_THROW(fit_noise(measured, 4, 9), UsageError);  // out of order
  measured.back().update = 10;
  EXPECT_NO_THROW(fit_noise(measured, 4, 10));
  EXPECT_THROW(fit_noise(measured, 0, 10), UsageError);
  EXPECT_THROW(fit_noise(measured, 4, 0), UsageError);
  EXPECT_THROW(fit_noise(measured, 4, 10, {.windows = 1}), UsageError);
  EXPECT_THROW(fit_noise(measured, 4, 10, {.bootstrap = {.rounds = 20}}), UsageError);
  measured.back().variance = std::nan("");
  EXPECT_THROW(fit_noise(measured, 4, 10), UsageError);
}

}  // namespace
}  // namespace convoy::plan
