// What workers that share a host lose to each other: told from communication, and counted with.
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/plan/hardware.h"
#include "plan/group_means.h"
#include "plan/robust.h"
#include "tests/base/scratch.h"
#include "tests/plan/synthetic.h"

namespace {

using namespace convoy::plan;
using namespace convoy::plan::test;
using convoy::RandomStream;
using convoy::UsageError;
using convoy::test::message_of;

// Two workers compute 7% longer than one, four 15%.
Machine contended() {
  Machine machine;
  machine.seconds_per_sample = 2e-4;
  machine.knee_samples = 6;
  machine.contention = {{2, 0.07}, {4, 0.15}};
  machine.communication.kind = CommunicationKind::ring;
  machine.communication.delta_s = 4e-4;
  return machine;
}

const std::vector<std::int64_t> kTimed{1, 4, 16, 64, 256};

// Whole updates of so many workers with each share, on hosts of so many of them.
std::vector<CommunicationSample> updates_of(const Machine& machine,
                                            const std::vector<std::int64_t>& workers,
                                            const std::vector<std::int64_t>& shares, int each,
                                            const Noise& noise, RandomStream& random,
                                            std::int64_t host_workers = 0) {
  std::vector<CommunicationSample> samples;
  for (const std::int64_t p : workers) {
    for (const std::int64_t share : shares) {
      for (int i = 0; i < each; ++i) {
        samples.push_back(
            {p, 1e-7, p * share, seconds_per_update(machine, p * share, p) * noise(random)});
        if (host_workers > 0) samples.back().host_workers = std::min(p, host_workers);
      }
    }
  }
  return samples;
}

MeasuredMachine measured(const Machine& machine, const std::vector<std::int64_t>& workers,
                         const std::vector<std::int64_t>& shares) {
  RandomStream random(1);
  const auto alone = times(machine, kTimed, 2, kExact, random);
  const ComputeFit compute = fit_compute(alone, kQuick);
  return measured_machine(
      compute, fit_communication(updates_of(machine, workers, shares, 2, kExact, random), alone,
                                 compute, kQuick));
}

TEST(Contention, IsToldFromCommunicationByTwoShares) {
  const Machine truth = contended();
  const Machine found = measured(truth, {2, 4}, {8, 128}).machine;
  ASSERT_EQ(found.contention.size(), 2u);
  EXPECT_NEAR(found.contention[0].part, 0.07, 1e-8);
  EXPECT_NEAR(found.contention[1].part, 0.15, 1e-8);
  EXPECT_EQ(found.communication.kind, CommunicationKind::ring);
  EXPECT_NEAR(found.communication.delta_s, 4e-4, 1e-10);
  // Batches between those that were timed, and beyond, take what they do.
  for (const std::int64_t batch : {4, 20, 64, 100, 250, 2000}) {
    for (const std::int64_t workers : {1, 2, 4}) {
      const double exact = seconds_per_update(truth, batch, workers);
      EXPECT_NEAR(seconds_per_update(found, batch, workers), exact, 1e-7 * exact)
          << batch << " on " << workers;
    }
  }
  // One share, as plans of before have it: what is lost counts as communication, and the error is
  // the larger the farther a batch is from the one that was timed.
  const Machine before = measured(truth, {2, 4}, {32}).machine;
  EXPECT_TRUE(before.contention.empty());
  EXPECT_NEAR(seconds_per_update(before, 64, 2), seconds_per_update(truth, 64, 2), 1e-4);
  EXPECT_LT(seconds_per_update(before, 256, 2), 0.96 * seconds_per_update(truth, 256, 2));
}

TEST(Contention, WithoutAnyTheAnswerIsAsBefore) {
  Machine truth = contended();
  truth.contention.clear();
  const MeasuredMachine two = measured(truth, {2, 4}, {8, 128});
  const MeasuredMachine one = measured(truth, {2, 4}, {32});
  for (const ContentionPoint& point : two.machine.contention) EXPECT_NEAR(point.part, 0, 1e-8);
  EXPECT_EQ(two.machine.communication.kind, one.machine.communication.kind);
  EXPECT_NEAR(two.machine.communication.delta_s, one.machine.communication.delta_s, 1e-10);
  for (const std::int64_t batch : {8, 64, 500}) {
    const double exact = seconds_per_update(one.machine, batch, 4);
    EXPECT_NEAR(seconds_per_update(two.machine, batch, 4), exact, 1e-7 * exact);
  }
  // With one share it is the very fit of before, draws and all.
  RandomStream random(3);
  const auto alone = times(truth, kTimed, 3, log_normal(0.02), random);
  const auto samples = updates_of(truth, {2, 4}, {32}, 3, log_normal(0.02), random);
  const ComputeFit compute = fit_compute(alone, kQuick);
  const CommunicationFit now = fit_communication(samples, alone, compute, kQuick);
  const CommunicationFit then = fit_communication(beyond_compute(samples, alone), kQuick);
  EXPECT_EQ(now.draws, then.draws);
  EXPECT_EQ(now.delta_s.value, then.delta_s.value);
  EXPECT_EQ(now.warnings, then.warnings);
  EXPECT_TRUE(now.contention.empty());
}

// More hosts, more workers, and as many on each: what those on one lose stays.
TEST(Contention, IsOfWorkersOnOneHost) {
  Machine truth = contended();
  truth.contention = {{2, 0.07}};
  RandomStream random(4);
  const auto alone = times(truth, kTimed, 2, kExact, random);
  const ComputeFit compute = fit_compute(alone, kQuick);
  const auto fitted = [&](std::int64_t host_workers, const std::vector<std::int64_t>& shares) {
    return fit_communication(updates_of(truth, {2, 4, 8}, shares, 2, kExact, random, host_workers),
                             alone, compute, kQuick);
  };
  const CommunicationFit pairs = fitted(2, {8, 128});
  ASSERT_EQ(pairs.contention.size(), 3u);
  for (const ContentionFit& one : pairs.contention) EXPECT_NEAR(one.part.value, 0.07, 1e-8);
  EXPECT_NEAR(pairs.delta_s.value, 4e-4, 1e-10);
  // Where each has a host of its own nothing is lost, and all is communication.
  EXPECT_TRUE(fitted(1, {32}).contention.empty());
  Machine more = truth;
  EXPECT_EQ(contention_part(more, 1), 0);
  EXPECT_EQ(contention_part(more, 1024), 0.07);
  more.contention = {{4, 0.12}, {8, 0.2}};
  EXPECT_DOUBLE_EQ(contention_part(more, 2), 0.04);
  EXPECT_DOUBLE_EQ(contention_part(more, 6), 0.16);
}

// Scatter does not make workers faster together than one alone, and shares between which computing
// hardly differs tell nothing.
TEST(Contention, IsNoLessThanNothing) {
  Machine truth = contended();
  truth.contention.clear();
  RandomStream random(5);
  const auto alone = times(truth, kTimed, 2, kExact, random);
  const ComputeFit compute = fit_compute(alone, kQuick);
  auto samples = updates_of(truth, {2}, {8, 128}, 3, log_normal(0.01), random);
  for (CommunicationSample& sample : samples) sample.update_s *= sample.batch == 256 ? 0.95 : 1;
  const CommunicationFit fast = fit_communication(samples, alone, compute, kQuick);
  ASSERT_EQ(fast.contention.size(), 1u);
  EXPECT_EQ(fast.contention[0].part.value, 0);
  EXPECT_GE(fast.contention[0].part.interval.low, 0);
  EXPECT_GT(fast.delta_s.interval.low, 0);
  const CommunicationFit flat = fit_communication(
      updates_of(contended(), {2}, {1, 5}, 3, kExact, random), alone, compute, kQuick);
  EXPECT_TRUE(flat.contention.empty());
  EXPECT_GT(flat.delta_s.value, 4e-4);
  EXPECT_TRUE(flat.warnings.empty()) << flat.warnings.front();
}

TEST(Contention, OneTimeThatIsFarOffChangesLittle) {
  const Machine truth = contended();
  RandomStream random(6);
  const auto alone = times(truth, kTimed, 3, log_normal(0.01), random);
  const ComputeFit compute = fit_compute(alone, kQuick);
  auto samples = updates_of(truth, {2}, {8, 128}, 3, log_normal(0.01), random);
  samples[4].update_s *= 3;
  const CommunicationFit fit = fit_communication(samples, alone, compute, kQuick);
  EXPECT_EQ(fit.outliers, std::vector<std::size_t>{4});
  EXPECT_TRUE(mentions(fit.warnings, "1 of 6 times are far off"));
  ASSERT_EQ(fit.contention.size(), 1u);
  EXPECT_NEAR(fit.contention[0].part.value, 0.07, 0.04);
}

// Each of these would have gone on with nothing, or with no number.
TEST(Contention, RefusesWhatIsNone) {
  RandomStream random(7);
  const auto alone = times(contended(), kTimed, 2, kExact, random);
  const ComputeFit compute = fit_compute(alone, kQuick);
  auto samples = updates_of(contended(), {2}, {8, 128}, 1, kExact, random);
  EXPECT_NO_THROW((void)fit_communication(samples, alone, compute, kQuick));
  samples[0].seconds = 0;
  EXPECT_THROW((void)fit_communication(samples, alone, compute, kQuick), UsageError);
  samples[0].seconds = 1, samples[0].workers = 1;
  EXPECT_THROW((void)fit_communication(samples, alone, compute, kQuick), UsageError);
  Machine machine = contended();
  machine.contention = {{2, -0.1}};
  EXPECT_EQ(message_of<UsageError>([&] { validate(machine); }),
            "part in compute.contention is -0.1; it must be a number of 0 or more");
  machine.contention = {{1, 0.1}};
  EXPECT_EQ(message_of<UsageError>([&] { validate(machine); }),
            "workers in compute.contention (ascending) is 1; it must be an integer of 2 or more");
}

// Equations 8 to 10, with workers that compute longer together.
TEST(Contention, TheBestBatchIsTheOneWithTheLeastTime) {
  const UpdateLaw law{80, 4000};
  Machine machine = contended();
  for (const double overhead : {0.0, 1e-3}) {
    machine.overhead_s = overhead;
    machine.communication.delta_s = 0.02;
    const double best = optimal_batch(law, machine, 4);
    EXPECT_NEAR(ideal_convergence_seconds(law, machine, best, 4), optimal_seconds(law, machine, 4),
                1e-9);
    for (const double near : {0.97, 1.03})
      EXPECT_GT(ideal_convergence_seconds(law, machine, near * best, 4),
                optimal_seconds(law, machine, 4));
    const BatchTime whole = best_batch(law, machine, 4, 60000);
    EXPECT_NEAR(static_cast<double>(whole.batch), best, 4);
    // Longer computing asks for smaller batches.
    Machine without = machine;
    without.contention.clear();
    EXPECT_LT(best, optimal_batch(law, without, 4));
  }
  // A faster processor computes faster with others beside it, too.
  for (const MachineChange& change : machine_changes(machine, 4, 2))
    EXPECT_EQ(change.machine.contention, machine.contention) << change.change;
}

TEST(Contention, FilesHaveItAndThoseOfBeforeHaveNone) {
  const Machine machine = contended();
  EXPECT_EQ(machine_of_toml(to_toml(machine)), machine);
  const std::string before =
      "source = \"measured\"\n[compute]\nseconds_per_sample = 1e-3\nknee_samples = 4.0\n"
      "[communication]\nkind = \"constant\"\ndelta_s = 0.001\n";
  const Machine old = machine_of_toml(before);
  EXPECT_TRUE(old.contention.empty());
  EXPECT_DOUBLE_EQ(seconds_per_update(old, 16, 2), 9e-3);
}

// Values of a pair are nearer to its mean than to the center that they scatter around: half of
// their variance is missing, and so is most of what the robust estimate cuts off.
TEST(GroupMeans, ScatterOfFewValuesIsNotTooLarge) {
  constexpr std::size_t kGroups = 4000;
  for (const std::size_t size : {2, 3, 10}) {
    RandomStream random(5, size);
    std::vector<std::vector<double>> groups(kGroups, std::vector<double>(size));
    for (std::vector<double>& group : groups) {
      const double center = random.uniform();
      for (double& value : group) value = center + 0.1 * normal_draw(random);
    }
    const GroupMeans means = group_means(groups, 0, 0);
    EXPECT_EQ(means.freedom, static_cast<double>(kGroups * (size - 1)));
    // Five standard deviations of what 4000 pairs say of it.
    EXPECT_NEAR(means.scatter, 0.1, 0.006) << size;
  }
}

}  // namespace
