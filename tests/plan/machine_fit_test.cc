// Fits of times and of communication: what they find, what they leave out, what they warn of.
#include "convoy/plan/machine_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/plan/synthetic.h"

namespace {

using namespace convoy::plan;
using namespace convoy::plan::test;
using convoy::RandomStream;
using convoy::UsageError;

Machine machine() {
  Machine machine;
  machine.seconds_per_sample = 2e-4;
  machine.knee_samples = 12;
  return machine;
}

TEST(ComputeFit, FindsTheExactHingeWhereverItIs) {
  for (const double knee : {1.5, 4.0, 12.0, 100.0}) {
    Machine exact = machine();
    exact.knee_samples = knee;
    RandomStream random(1);
    const ComputeFit fit = fit_compute(times(exact, {1, 2, 4, 8, 16, 64, 256}, 2, kExact, random));
    EXPECT_NEAR(fit.seconds_per_sample.value, 2e-4, 1e-12) << knee;
    EXPECT_NEAR(fit.knee_samples.value, knee, 1e-8) << knee;
    EXPECT_TRUE(fit.flat_seen && fit.slope_seen) << knee;
    EXPECT_TRUE(fit.warnings.empty()) << knee;
  }
}

// What a processor does for each update comes on top of what samples take.
Machine with_overhead() {
  Machine machine;
  machine.seconds_per_sample = 1e-4;
  machine.overhead_s = 8e-4;
  return machine;
}

TEST(ComputeFit, FindsAnOverheadWhereThereIsNoKnee) {
  RandomStream random(1);
  const std::vector<std::int64_t> sizes{1, 4, 16, 64, 256, 1024};
  const ComputeFit exact =
      fit_compute(times(with_overhead(), sizes, 2, log_normal(1e-4), random), kQuick);
  EXPECT_NEAR(exact.overhead_s.value, 8e-4, 1e-6);
  EXPECT_NEAR(exact.seconds_per_sample.value, 1e-4, 1e-7);
  EXPECT_EQ(exact.knee_samples.value, 1);
  EXPECT_TRUE(exact.warnings.empty());
  int inside = 0, gammas = 0;
  constexpr int kSeeds = 300;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    RandomStream own(static_cast<std::uint64_t>(seed));
    const ComputeFit fit =
        fit_compute(times(with_overhead(), sizes, 5, log_normal(0.05), own), kQuick);
    ASSERT_GT(fit.overhead_s.value, 0) << seed;
    EXPECT_EQ(measured_machine(fit).machine.overhead_s, fit.overhead_s.value);
    inside += fit.overhead_s.interval.low <= 8e-4 && 8e-4 <= fit.overhead_s.interval.high;
    gammas +=
        fit.seconds_per_sample.interval.low <= 1e-4 && 1e-4 <= fit.seconds_per_sample.interval.high;
  }
  // 95% and three standard deviations of so many.
  for (const int hits : {inside, gammas}) {
    EXPECT_GE(hits, 0.912 * kSeeds);
    EXPECT_LE(hits, 0.988 * kSeeds);
  }
}

// A budget leaves time for one of each: what is far likelier is seen all the same.
TEST(ComputeFit, FindsAnOverheadWithoutRepetitions) {
  int found = 0, wrong = 0;
  constexpr int kSeeds = 100;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    RandomStream random(static_cast<std::uint64_t>(seed));
    const std::vector<std::int64_t> sizes{1, 4, 16, 64, 256, 1024};
    const ComputeFit fit =
        fit_compute(times(with_overhead(), sizes, 1, log_normal(0.03), random), kQuick);
    found += fit.overhead_s.value > 0;
    if (fit.overhead_s.value > 0) EXPECT_NEAR(fit.overhead_s.value / 8e-4, 1, 0.25) << seed;
    EXPECT_EQ(fit.lack_of_fit, 1) << seed;
    wrong +=
        fit_compute(times(machine(), sizes, 1, log_normal(0.03), random), kQuick).overhead_s.value >
        0;
  }
  EXPECT_GE(found, 0.9 * kSeeds);
  EXPECT_LE(wrong, 0.03 * kSeeds);
}

// What the hinge leaves unexplained at a typical batch is not what the other model leaves at all.
TEST(ComputeFit, ComparesModelsByTheSameScatter) {
  std::vector<TimeSample> samples;
  RandomStream random(8);
  for (const std::int64_t m : {1, 4, 16, 64, 256, 1024}) {
    const auto size = static_cast<double>(m);
    const Noise noise = log_normal(1 / std::sqrt(size));
    for (int i = 0; i < 8; ++i) samples.push_back({m, (8e-4 + 1e-4 * size) * noise(random)});
  }
  const ComputeFit fit = fit_compute(samples, kQuick);
  EXPECT_NEAR(fit.overhead_s.value / 8e-4, 1, 0.3);
}

TEST(ComputeFit, SaysWhichPartOfAnOverheadWasNotSeen) {
  const auto fitted = [](const std::vector<std::int64_t>& sizes) {
    RandomStream random(7);
    return fit_compute(times(with_overhead(), sizes, 4, log_normal(1e-4), random), kQuick);
  };
  const ComputeFit both = fitted({1, 4, 16, 64});
  EXPECT_TRUE(both.flat_seen && both.slope_seen && both.warnings.empty());
  const ComputeFit large = fitted({16, 64, 256});
  ASSERT_GT(large.overhead_s.value, 0);
  EXPECT_TRUE(!large.flat_seen && large.slope_seen);
  EXPECT_TRUE(mentions(large.warnings, "less than half of every time; measure smaller batches"));
  const ComputeFit small = fitted({1, 2, 4, 7});
  ASSERT_GT(small.overhead_s.value, 0);
  EXPECT_TRUE(small.flat_seen && !small.slope_seen);
  EXPECT_TRUE(mentions(small.warnings, "more than half of every time; measure larger batches"));
}

// One bad time changes neither.
TEST(ComputeFit, AnOverheadIsFoundDespiteDisturbedTimes) {
  RandomStream random(4);
  auto samples = times(with_overhead(), {1, 4, 16, 64, 256}, 5, log_normal(0.03), random);
  samples[1].seconds *= 4;
  const ComputeFit fit = fit_compute(samples, kQuick);
  EXPECT_EQ(fit.outliers, std::vector<std::size_t>{1});
  EXPECT_NEAR(fit.overhead_s.value / 8e-4, 1, 0.06);
  EXPECT_NEAR(fit.seconds_per_sample.value / 1e-4, 1, 0.06);
}

TEST(ComputeFit, MarksDisturbedTimesAndGoesOnWithout) {
  RandomStream random(2);
  auto samples = times(machine(), {1, 4, 16, 64, 256}, 5, log_normal(0.03), random);
  samples[3].seconds *= 5;
  samples[21].seconds *= 2;
  const ComputeFit fit = fit_compute(samples, kQuick);
  EXPECT_EQ(fit.outliers, (std::vector<std::size_t>{3, 21}));
  EXPECT_GT(fit.residuals[3], fit.residuals[21]);
  EXPECT_TRUE(mentions(fit.warnings, "2 of 25 times are far off"));
  EXPECT_NEAR(fit.seconds_per_sample.value / 2e-4, 1, 0.05);
  EXPECT_NEAR(fit.knee_samples.value / 12, 1, 0.05);
}

TEST(ComputeFit, SaysWhichSideOfTheKneeWasNotSeen) {
  RandomStream random(3);
  const ComputeFit rising =
      fit_compute(times(machine(), {16, 32, 64}, 4, log_normal(0.001), random), kQuick);
  if (!rising.flat_seen) {
    EXPECT_EQ(rising.knee_samples.value, 16);
    EXPECT_EQ(rising.knee_samples.interval.low, 0);
    EXPECT_TRUE(mentions(rising.warnings, "M_T is at most 16; measure smaller batches"));
  }
  RandomStream exact(4);
  const ComputeFit flat = fit_compute(times(machine(), {1, 2, 8}, 4, kExact, exact), kQuick);
  EXPECT_FALSE(flat.slope_seen);
  EXPECT_EQ(flat.knee_samples.value, 8);
  EXPECT_EQ(flat.knee_samples.interval.high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(flat.seconds_per_sample.interval.low, 0);
  EXPECT_TRUE(mentions(flat.warnings, "M_T is at least 8; measure larger batches"));
  const ComputeFit steep = fit_compute(times(machine(), {16, 32, 64}, 4, kExact, exact), kQuick);
  EXPECT_FALSE(steep.flat_seen);
  EXPECT_TRUE(mentions(steep.warnings, "measure smaller batches"));
}

TEST(ComputeFit, SaysWhereNeitherFits) {
  std::vector<TimeSample> samples;
  RandomStream random(5);
  const Noise noise = log_normal(0.02);
  for (const std::int64_t m : {1, 2, 4, 8, 16, 32, 64, 128}) {
    for (int i = 0; i < 5; ++i)
      samples.push_back({m, std::sqrt(static_cast<double>(m)) * noise(random)});
  }
  const ComputeFit fit = fit_compute(samples, kQuick);
  EXPECT_LT(fit.lack_of_fit, 0.01);
  EXPECT_TRUE(mentions(fit.warnings, "does not describe the times"));
  const auto table = compute_table(samples);
  ASSERT_EQ(table.size(), 8u);
  EXPECT_EQ(table[3].samples, 8);
  EXPECT_NEAR(table[3].seconds, std::sqrt(8), 0.1);
  // Which is what a measured machine has then: no time is further off than its mean is.
  ASSERT_EQ(fit.table.size(), table.size());
  EXPECT_TRUE(mentions(fit.warnings, "the means of measured times are used"));
  const MeasuredMachine machine = measured_machine(fit);
  EXPECT_EQ(machine.machine.table, fit.table);
  for (const double m : {1.0, 8.0, 128.0})
    EXPECT_NEAR(compute_seconds(machine.machine, m), std::sqrt(m), 0.03 * std::sqrt(m));
  EXPECT_GT(compute_seconds(machine.machine, 256), compute_seconds(machine.machine, 128));
}

TEST(ComputeFit, KeepsAModelThatIsCloseEnough) {
  // Measured so often, and with so little scatter, that a miss by 2% is no chance.
  std::vector<TimeSample> samples;
  RandomStream random(4, 0);
  const Noise noise = log_normal(0.002);
  for (const std::int64_t m : {1, 4, 16, 64, 256}) {
    const double time = (0.001 + 0.0005 * static_cast<double>(m)) * (m == 16 ? 1.02 : 1);
    for (int i = 0; i < 5; ++i) samples.push_back({m, time * noise(random)});
  }
  const ComputeFit fit = fit_compute(samples, kQuick);
  EXPECT_LT(fit.lack_of_fit, 0.01);
  EXPECT_TRUE(fit.table.empty());
  for (TimeSample& sample : samples) sample.seconds *= sample.samples == 16 ? 1.2 : 1;
  EXPECT_EQ(fit_compute(samples, kQuick).table.size(), 5u);
}

TEST(ComputeFit, RefusesWhatIsNoneOrTooFew) {
  EXPECT_THROW((void)fit_compute({{1, 1}, {2, 1}}), UsageError);
  EXPECT_THROW((void)fit_compute({{2, 1}, {2, 1}, {2, 1}}), UsageError);
  EXPECT_NO_THROW((void)fit_compute({{1, 1}, {2, 1}, {2, 1}}, kQuick));
  EXPECT_THROW((void)fit_compute({{0, 1}, {2, 1}, {2, 1}}), UsageError);
  EXPECT_THROW((void)fit_compute({{1, 0}, {2, 1}, {2, 1}}), UsageError);
  EXPECT_THROW((void)fit_compute({{1, std::nan("")}, {2, 1}, {2, 1}}), UsageError);
}

TEST(ComputeFit, EndsInNumbersForAnyTimes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStream random(11, seed);
    std::vector<TimeSample> samples = {{1, 1}, {2, 1}};
    const double spread = 12 * random.uniform() * random.uniform();
    const std::uint64_t count = 1 + random.below(25);
    for (std::uint64_t i = 0; i < count; ++i) {
      samples.push_back({std::int64_t{1} << random.below(12),
                         random.below(3) == 0 ? 1 : std::exp(spread * random.uniform())});
    }
    const ComputeFit fit = fit_compute(samples, {39, seed});
    ASSERT_TRUE(fit.seconds_per_sample.value > 0) << seed;
    ASSERT_TRUE(std::isfinite(fit.seconds_per_sample.interval.high)) << seed;
    ASSERT_TRUE(fit.knee_samples.value >= 1 && fit.knee_samples.value <= 2048) << seed;
    ASSERT_TRUE(fit.lack_of_fit > 0 && fit.lack_of_fit <= 1) << seed;
    for (const double z : fit.residuals) ASSERT_TRUE(std::isfinite(z)) << seed;
  }
}

TEST(CommunicationFit, FindsDeltaAndItsKind) {
  RandomStream random(6);
  for (const auto kind : {CommunicationKind::constant, CommunicationKind::server,
                          CommunicationKind::ring, CommunicationKind::tree}) {
    Communication truth;
    truth.kind = kind;
    truth.delta_s = 0.01;
    const auto samples = communication(truth, {2, 3, 4, 8, 16}, 4, log_normal(0.03), random);
    const CommunicationFit fit = fit_communication(samples, kQuick);
    EXPECT_EQ(fit.kind, kind);
    EXPECT_TRUE(fit.delta_s.interval.contains(0.01)) << name(kind);
    EXPECT_GT(fit.lack_of_fit, 0.01) << name(kind);
    const auto other =
        kind == CommunicationKind::server ? CommunicationKind::ring : CommunicationKind::server;
    EXPECT_LT(fit_communication(samples, other, kQuick).lack_of_fit, 0.01) << name(kind);
  }
}

TEST(CommunicationFit, OneNumberOfWorkersSaysNothingOfTheKind) {
  const CommunicationFit fit = fit_communication({{4, 0.01}, {4, 0.01}}, kQuick);
  EXPECT_EQ(fit.kind, CommunicationKind::constant);
  EXPECT_NEAR(fit.delta_s.value, 0.01, 1e-15);
  EXPECT_EQ(fit.lack_of_fit, 1);
  const Communication table = communication_table({{4, 0.02}, {2, 0.01}, {4, 0.02}});
  ASSERT_EQ(table.table.size(), 2u);
  EXPECT_EQ(table.table[0].workers, 2);
  EXPECT_NEAR(table.table[0].seconds, 0.01, 1e-15);
  EXPECT_NEAR(table.table[1].seconds, 0.02, 1e-15);
}

TEST(CommunicationFit, WarnsWhereComputationHidesDifferentParts) {
  const auto warning = [](const std::vector<CommunicationSample>& samples) {
    const std::vector<std::string> one = fit_communication(samples, kQuick).warnings;
    EXPECT_EQ(fit_communication(samples, CommunicationKind::constant, kQuick).warnings, one);
    EXPECT_LE(one.size(), 1u);
    return one.empty() ? "" : one.front();
  };
  EXPECT_EQ(warning({{2, 1, 64}, {2, 1, 64}, {8, 1, 64}}), "");
  EXPECT_EQ(warning({{2, 1, 64}, {2, 1}, {16, 1}}), "") << "nothing says the batch";
  EXPECT_NE(warning({{2, 1, 64}, {4, 1, 256}, {2, 1, 256}}).find("with batches of 64 and of 256"),
            std::string::npos);
  EXPECT_NE(warning({{2, 1, 64}, {16, 1, 64}}).find("with 4 to 32 samples for each worker"),
            std::string::npos);
}

// Equation 3: an update of 64 samples on 2 workers, less what one takes for 32 of them.
TEST(CommunicationFit, IsWhatUpdatesTakeBeyondComputing) {
  std::vector<TimeSample> times;
  for (const std::int64_t samples : {1, 8, 16, 64}) {
    for (int i = 0; i < 3; ++i)
      times.push_back({samples, 1e-3 * std::max<double>(8, static_cast<double>(samples))});
  }
  times.push_back({16, 18e-3}), times.push_back({16, 18e-3}), times.push_back({16, 18e-3});
  const std::vector<CommunicationSample> known{{2, 0.001, 64, 0.035},  // 32 each
                                               {2, 0.001, 63, 0.035},  // the larger share
                                               {4, 0.001, 64, 0.020},  // 16 each, which were timed
                                               {2, 0.004, 64, 0.034},  // more was seen to wait
                                               {2, 0.001, 64},         // of before
                                               {2, 0.001, 0, 0.035},
                                               {2, 1e-7, 64, 0.030}};  // it is all hidden
  const auto delta = [&](std::size_t i) { return beyond_compute(known, times)[i].seconds; };
  EXPECT_NEAR(delta(0), 0.003, 0.0015);
  EXPECT_EQ(delta(1), delta(0));
  const double mean = compute_table(times)[2].seconds;
  EXPECT_DOUBLE_EQ(delta(2), 0.020 - mean);
  EXPECT_EQ(delta(3), 0.004);
  EXPECT_EQ(delta(4), 0.001);
  EXPECT_EQ(delta(5), 0.001);
  EXPECT_DOUBLE_EQ(delta(6), 0.0003) << "what times don't tell from nothing";
  times.resize(2);  // of one sample alone
  EXPECT_EQ(delta(0), 0.001);
}

TEST(CommunicationFit, RefusesWhatIsNoneOrTooFew) {
  EXPECT_THROW((void)fit_communication({{2, 1}}), UsageError);
  EXPECT_THROW((void)fit_communication({{2, 1}, {1, 1}}), UsageError) << "one worker has none";
  EXPECT_THROW((void)fit_communication({{2, 1}, {2, 0}}), UsageError);
  EXPECT_THROW((void)fit_communication({{2, 1}, {2, 1}}, CommunicationKind::table), UsageError);
}

}  // namespace
