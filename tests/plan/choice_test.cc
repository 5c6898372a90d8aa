// What is recommended, and what to measure next.
#include "convoy/plan/choice.h"

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
using convoy::test::message_of;

const std::vector<std::int64_t> kBatches = {1, 4, 16, 64, 256, 1024};

struct Plan {
  Training training{{800, 40000}, kBatches, 5, log_normal(0.1)};
  Machine machine;
  UpdateFit updates;
  ComputeFit compute;
  CommunicationFit communication;

  explicit Plan(double delta = 0.02, double n_inf = 800, std::uint64_t seed = 1) {
    training.law.updates_at_infinity = n_inf;
    machine.seconds_per_sample = 2e-4;
    machine.knee_samples = 12;
    machine.communication.kind = CommunicationKind::constant;
    machine.communication.delta_s = delta;
    RandomStream random(seed);
    updates = fit_updates(training.runs(random), kQuick);
    compute = fit_compute(times(machine, kBatches, 4, log_normal(0.03), random), kQuick);
    communication = fit_communication(
        test::communication(machine.communication, {2, 4}, 5, log_normal(0.1), random),
        CommunicationKind::constant, kQuick);
  }

  MeasuredMachine measured() const { return measured_machine(compute, communication); }
};

TEST(Choice, IsTheBestBatchOfTheFitsWithItsInterval) {
  const Plan plan;
  const BatchChoice choice = choose_batch(plan.updates, plan.measured(), 4, 60000);
  EXPECT_EQ(choice.batch % 4, 0);
  EXPECT_NEAR(static_cast<double>(choice.batch), choice.optimum.value, 5);
  EXPECT_DOUBLE_EQ(choice.optimum.value,
                   optimal_batch(plan.updates.law, plan.measured().machine, 4));
  EXPECT_TRUE(choice.optimum.interval.contains(optimal_batch(plan.training.law, plan.machine, 4)));
  EXPECT_TRUE(choice.seconds.interval.contains(
      convergence_seconds(plan.training.law, plan.machine, choice.batch, 4)));
  EXPECT_DOUBLE_EQ(choice.learning_rate, learning_rate_for(plan.updates.envelope, choice.batch));
  EXPECT_DOUBLE_EQ(predicted_updates(plan.updates, 3000).value(),
                   updates_to_target(plan.updates.law, 3000));
  // It is within 5% from low_batch to high_batch, and not beyond.
  const auto time = [&](std::int64_t batch) {
    return convergence_seconds(plan.updates.law, plan.measured().machine, batch, 4);
  };
  EXPECT_LT(choice.low_batch, choice.batch);
  EXPECT_GT(choice.high_batch, choice.batch);
  const double most = 1.05 * choice.seconds.value;
  EXPECT_LE(time(choice.low_batch), most);
  EXPECT_GT(time(choice.low_batch - 4), most);
  EXPECT_LE(time(choice.high_batch), most);
  EXPECT_GT(time(choice.high_batch + 4), most);
  ASSERT_TRUE(choice.strong && choice.weak);
  EXPECT_GT(choice.strong->seconds, choice.seconds.value);
  EXPECT_GT(choice.weak->seconds, choice.seconds.value);
  EXPECT_TRUE(choice.warnings.empty());
}

TEST(Choice, OneWorkerTakesTheKnee) {
  const Plan plan;
  const BatchChoice choice = choose_batch(plan.updates, measured_machine(plan.compute), 1, 60000);
  EXPECT_DOUBLE_EQ(choice.optimum.value, plan.compute.knee_samples.value);
  EXPECT_EQ(choice.optimum.interval.low, plan.compute.knee_samples.interval.low);
  EXPECT_NEAR(static_cast<double>(choice.batch), 12, 1.5);
}

// The knee is somewhere on the side that was not timed, and so is the best batch of one worker.
TEST(Choice, IsNotSureOfAKneeThatTimesDoNotShow) {
  const Plan plan;
  const auto chosen = [&plan](const std::vector<std::int64_t>& sizes, double knee) {
    Machine machine = plan.machine;
    machine.knee_samples = knee;
    RandomStream random(1);
    const ComputeFit compute = fit_compute(times(machine, sizes, 3, kExact, random), kQuick);
    return choose_batch(plan.updates, measured_machine(compute), 1, 60000);
  };
  const BatchChoice flat = chosen({1, 16, 256, 1024}, 5000);
  EXPECT_EQ(flat.optimum.value, 1024);
  EXPECT_EQ(flat.optimum.interval.low, 1024);
  EXPECT_EQ(flat.optimum.interval.high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(flat.batch, 1024);
  EXPECT_EQ(flat.high_batch, 1024);
  EXPECT_TRUE(mentions(flat.warnings, "up to 1024 samples, the most that were timed"));
  const BatchChoice rising = chosen({16, 64, 256}, 4);
  EXPECT_EQ(rising.optimum.value, 16);
  EXPECT_EQ(rising.optimum.interval.low, 1);
  EXPECT_NEAR(rising.optimum.interval.high, 16, 1e-9);
  EXPECT_TRUE(mentions(rising.warnings, "from 16 samples on, the fewest that were timed"));
  EXPECT_TRUE(chosen({1, 4, 16, 64, 256}, 12).warnings.empty());
}

TEST(Choice, GivenValuesAreExact) {
  const Plan plan;
  MeasuredMachine given;
  given.machine = plan.machine;
  const BatchChoice with = choose_batch(plan.updates, plan.measured(), 4, 60000);
  const BatchChoice without = choose_batch(plan.updates, given, 4, 60000);
  EXPECT_LT(without.optimum.interval.high - without.optimum.interval.low,
            with.optimum.interval.high - with.optimum.interval.low);
  EXPECT_GT(without.optimum.interval.high, without.optimum.interval.low);
}

TEST(Choice, GivesNoWorkerMoreThanItsMemoryHolds) {
  const Plan plan;
  MeasuredMachine small = plan.measured();
  const BatchChoice free = choose_batch(plan.updates, small, 4, 60000);
  EXPECT_FALSE(mentions(free.warnings, "memory"));
  small.machine.memory_samples = free.batch / 8;
  const BatchChoice bound = choose_batch(plan.updates, small, 4, 60000);
  EXPECT_EQ(bound.batch, 4 * small.machine.memory_samples);
  EXPECT_LE(bound.high_batch, bound.batch);
  EXPECT_TRUE(mentions(bound.warnings, "the memory of a worker holds " +
                                           std::to_string(small.machine.memory_samples) +
                                           " samples; with more, larger batches"));
  // Nor where the law is not trusted.
  UpdateFit doubtful = plan.updates;
  doubtful.trusted = false;
  small.machine.memory_samples = 20;
  EXPECT_EQ(choose_batch(doubtful, small, 4, 60000).batch, 64);
}

// Whether a rate between two that were tried is as good as these is not known.
TEST(Choice, IsLessSureOfARateThatLiesBetweenTwo) {
  UpdateFit fit = Plan().updates;
  const auto interval = [&fit](std::int64_t batch) {
    Machine machine;
    machine.seconds_per_sample = 1e-3;
    return predicted_seconds(fit, {machine, {}, {}}, batch, 1).value().interval;
  };
  const auto rate = [&fit](std::size_t i, double own,
                           std::vector<EnvelopePoint::OtherRate> others) {
    fit.envelope[i].learning_rate = own;
    fit.envelope[i].others = std::move(others);
  };
  for (std::size_t i = 0; i < fit.envelope.size(); ++i) rate(i, 0.1, {{0.2, 1.5}});
  const Interval same = interval(32);  // between 16 and 64
  rate(3, 0.2, {{0.1, 1.5}});
  EXPECT_DOUBLE_EQ(rate_doubt(fit.envelope, 32), std::log(1.5) / 4);
  EXPECT_EQ(rate_doubt(fit.envelope, 64), 0);
  EXPECT_EQ(rate_doubt(fit.envelope, 16), 0);
  EXPECT_EQ(rate_doubt(fit.envelope, 8), 0);
  EXPECT_EQ(rate_doubt(fit.envelope, 4000), 0);
  const Interval unsure = interval(32);
  EXPECT_LT(unsure.low, same.low / 1.03);
  EXPECT_GT(unsure.high, same.high * 1.03);
  // One that diverges at one of both, and one that was not tried at the other.
  rate(2, 0.1, {{0.2, std::numeric_limits<double>::infinity()}});
  EXPECT_DOUBLE_EQ(rate_doubt(fit.envelope, 32), (std::log(2) + std::log(1.5)) / 2 / 4);
  rate(3, 0.2, {});
  EXPECT_DOUBLE_EQ(rate_doubt(fit.envelope, 32), std::log(2) / 4);
}

TEST(Choice, StaysWithinTheLargestBatch) {
  const Plan plan;
  const BatchChoice free = choose_batch(plan.updates, plan.measured(), 4, 60000);
  const BatchChoice bound = choose_batch(plan.updates, plan.measured(), 4, free.batch - 5);
  EXPECT_LT(bound.batch, free.batch);
  EXPECT_GE(bound.batch, free.batch - 8);
  EXPECT_THROW((void)choose_batch(plan.updates, plan.measured(), 4, 3), UsageError);
  EXPECT_THROW((void)choose_batch(plan.updates, plan.measured(), 0, 3), UsageError);
}

TEST(Choice, SaysWhereItLeavesWhatWasMeasured) {
  const Plan plan(2.0);  // a slow network
  const BatchChoice choice = choose_batch(plan.updates, plan.measured(), 16, 1000000);
  EXPECT_GT(choice.batch, 1024);
  ASSERT_EQ(choice.warnings.size(), 1u);
  EXPECT_NE(choice.warnings[0].find("beyond the largest measured one, 1024"), std::string::npos);
}

// One worker's best batch is the knee, 12, which no run was made with.
TEST(Choice, SaysWhereItIsBelowWhatWasMeasured) {
  const auto warnings = [](const std::vector<std::int64_t>& batches) {
    Plan plan;
    plan.training.batches = batches;
    RandomStream random(1);
    plan.updates = fit_updates(plan.training.runs(random), kQuick);
    const BatchChoice choice = choose_batch(plan.updates, measured_machine(plan.compute), 1, 60000);
    EXPECT_NEAR(static_cast<double>(choice.batch), 12, 1.5);
    return choice.warnings;
  };
  const std::vector<std::string> below = warnings({16, 64, 256, 1024});
  ASSERT_EQ(below.size(), 1u);
  EXPECT_TRUE(mentions(below, " is below the smallest measured one, 16: "));
  EXPECT_TRUE(mentions(below, "that of the smallest, which may be too large for it; measure it"));
  EXPECT_TRUE(warnings({4, 64, 256, 1024}).empty());
}

TEST(Choice, WithoutAFloorItIsTheLargestMeasuredBatch) {
  const Plan plan(0.02, -20);
  ASSERT_FALSE(plan.updates.trusted);
  const auto& envelope = plan.updates.envelope;
  const auto predicted = [&](double batch) { return predicted_updates(plan.updates, batch); };
  EXPECT_EQ(predicted(64), envelope[3].updates);
  EXPECT_DOUBLE_EQ(predicted(128).value(), std::sqrt(envelope[3].updates * envelope[4].updates));
  EXPECT_FALSE(predicted(1025));
  const BatchChoice choice = choose_batch(plan.updates, plan.measured(), 4, 60000);
  EXPECT_EQ(choice.batch, 1024);
  EXPECT_EQ(choice.optimum.value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(choice.optimum.interval.high, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(choice.strong || choice.weak);
  EXPECT_FALSE(choice.warnings.empty());
  // What was measured there, not what the law says.
  const EnvelopePoint& last = plan.updates.envelope.back();
  EXPECT_NEAR(choice.seconds.value,
              last.updates * seconds_per_update(plan.measured().machine, 1024, 4), 1e-9);
  EXPECT_TRUE(choice.seconds.interval.contains(choice.seconds.value));
  EXPECT_EQ(choose_batch(plan.updates, plan.measured(), 4, 1000).batch, 256);
  EXPECT_EQ(message_of<UsageError>(
                [&] { (void)choose_batch(plan.updates, plan.measured(), 2000, 60000); }),
            "the law of updates is not trusted, and no batch from 2000 (a sample per worker) to "
            "60000 was measured; measure some");
}

TEST(Choice, PredictsTheTimeOfAnyBatchWithItsInterval) {
  const Plan plan;
  const BatchChoice choice = choose_batch(plan.updates, plan.measured(), 4, 60000);
  const auto chosen = predicted_seconds(plan.updates, plan.measured(), choice.batch, 4);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->value, choice.seconds.value);
  EXPECT_EQ(chosen->interval.low, choice.seconds.interval.low);
  EXPECT_EQ(chosen->interval.high, choice.seconds.interval.high);
  const auto small = predicted_seconds(plan.updates, plan.measured(), 16, 4);
  EXPECT_DOUBLE_EQ(small->value,
                   convergence_seconds(plan.updates.law, plan.measured().machine, 16, 4));
  EXPECT_TRUE(
      small->interval.contains(convergence_seconds(plan.training.law, plan.machine, 16, 4)));
  EXPECT_LT(small->interval.low, small->value);
  // Without a law, between two batches that were measured and not beyond them.
  const Plan falling(0.02, -20);
  ASSERT_FALSE(falling.updates.trusted);
  const auto between = predicted_seconds(falling.updates, falling.measured(), 128, 4);
  EXPECT_NEAR(between->value,
              predicted_updates(falling.updates, 128).value() *
                  seconds_per_update(falling.measured().machine, 128, 4),
              1e-9);
  EXPECT_TRUE(between->interval.contains(between->value));
  EXPECT_FALSE(predicted_seconds(falling.updates, falling.measured(), 1025, 4));
}

TEST(Choice, WithoutAFloorATableChangesNothing) {
  const Plan plan(0.02, -20);
  MeasuredMachine machine = plan.measured();
  machine.compute_draws.clear();
  machine.machine.table = {{1, 2.4e-3}, {16, 3.2e-3}, {256, 5.2e-2}, {1024, 0.2}};
  const BatchChoice choice = choose_batch(plan.updates, machine, 4, 60000);
  EXPECT_EQ(choice.batch, 1024);
  EXPECT_EQ(choice.optimum.value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(choice.optimum.interval.high, std::numeric_limits<double>::infinity());
  EXPECT_NEAR(choice.seconds.value,
              plan.updates.envelope.back().updates * seconds_per_update(machine.machine, 1024, 4),
              1e-9);
  EXPECT_TRUE(choice.seconds.interval.contains(choice.seconds.value));
  // Alone there is nothing to gain by more samples than make a sample cheapest.
  const BatchChoice alone = choose_batch(plan.updates, machine, 1, 60000);
  EXPECT_EQ(alone.optimum.value, 1024);
}

TEST(Choice, TakesTablesOfMeasuredTimes) {
  const Plan plan;
  MeasuredMachine machine = plan.measured();
  machine.compute_draws.clear();
  machine.machine.table = {{1, 2e-3}, {16, 3e-3}, {64, 1.3e-2}, {256, 5.2e-2}};
  const BatchChoice choice = choose_batch(plan.updates, machine, 4, 60000);
  EXPECT_EQ(choice.batch, best_batch(plan.updates.law, machine.machine, 4, 60000).batch);
  EXPECT_EQ(choice.optimum.value, static_cast<double>(choice.batch));
  EXPECT_TRUE(choice.optimum.interval.contains(choice.optimum.value));
}

// One that is the fit itself at its points changes what is known by its straight lines alone, and
// beyond its end the fit goes on.
TEST(Choice, OfATableWithAFitIsAsUncertainAsTheFit) {
  const Plan plan;
  const MeasuredMachine fitted = plan.measured();
  MeasuredMachine machine = fitted;
  for (const std::int64_t samples : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128})
    machine.machine.table.push_back(
        {samples, compute_seconds(fitted.machine, static_cast<double>(samples))});
  const BatchChoice by_fit = choose_batch(plan.updates, fitted, 4, 60000);
  const BatchChoice by_table = choose_batch(plan.updates, machine, 4, 60000);
  EXPECT_NEAR(by_table.seconds.value, by_fit.seconds.value, 0.01 * by_fit.seconds.value);
  const auto width = [](const Estimate& e) { return e.interval.high - e.interval.low; };
  EXPECT_NEAR(width(by_table.seconds), width(by_fit.seconds), 0.1 * width(by_fit.seconds));
  EXPECT_NEAR(by_table.optimum.value, by_fit.optimum.value, 0.15 * by_fit.optimum.value);
  machine.machine.table.resize(2);
  EXPECT_GT(choose_batch(plan.updates, machine, 4, 60000).batch, 8);
}

Candidate run(std::int64_t batch, double cost) { return {Candidate::Kind::updates, batch, cost}; }

TEST(NextMeasurement, IsTheOneThatNarrowsMostPerSecond) {
  const Plan plan;
  const std::vector<Candidate> equal = {run(1, 10), run(64, 10), run(1024, 10)};
  const auto by_value =
      next_measurements(plan.updates, plan.compute, &plan.communication, plan.measured(), 4, equal);
  ASSERT_EQ(by_value.size(), 3u);
  // The ends say most about N_inf and alpha, the middle little.
  EXPECT_EQ(by_value.back().candidate, 1u);
  EXPECT_LT(by_value.front().narrowing, 1);
  EXPECT_GT(by_value.front().gain_per_s, by_value.back().gain_per_s);
  // Twice as long, half as good.
  std::vector<Candidate> costly = equal;
  for (Candidate& candidate : costly) candidate.cost_s *= 2;
  const auto by_half = next_measurements(plan.updates, plan.compute, &plan.communication,
                                         plan.measured(), 4, costly);
  EXPECT_NEAR(by_half[0].gain_per_s, by_value[0].gain_per_s / 2, 1e-15);
  costly[by_value[0].candidate].cost_s *= 1e4;
  EXPECT_EQ(
      next_measurements(plan.updates, plan.compute, &plan.communication, plan.measured(), 4, costly)
          .back()
          .candidate,
      by_value[0].candidate);
}

TEST(NextMeasurement, KnowsWhatDecides) {
  // One worker: M_T alone decides, so times on both sides of it.
  const Plan plan;
  const std::vector<Candidate> all = {run(1024, 1),
                                      {Candidate::Kind::time, 4, 1},
                                      {Candidate::Kind::time, 64, 1},
                                      {Candidate::Kind::communication, 4, 1}};
  const auto alone = next_measurements(plan.updates, plan.compute, nullptr,
                                       measured_machine(plan.compute), 1, all);
  EXPECT_TRUE(alone[0].candidate == 1 || alone[0].candidate == 2);
  EXPECT_TRUE(alone[1].candidate == 1 || alone[1].candidate == 2);
  // Four on this network: updates and communication.
  const auto four =
      next_measurements(plan.updates, plan.compute, &plan.communication, plan.measured(), 4, all);
  EXPECT_TRUE(four[0].candidate == 0 || four[0].candidate == 3);
  EXPECT_EQ(four.back().candidate, 1u);
  EXPECT_THROW(
      (void)next_measurements(plan.updates, plan.compute, nullptr, plan.measured(), 4, {run(0, 1)}),
      UsageError);
  EXPECT_THROW(
      (void)next_measurements(plan.updates, plan.compute, nullptr, plan.measured(), 4, {run(1, 0)}),
      UsageError);
}

// As with the hinge through the same times, which says where samples begin to cost.
TEST(NextMeasurement, TakesTablesOfMeasuredTimes) {
  const Plan plan;
  const std::vector<Candidate> all = {run(1024, 1),
                                      {Candidate::Kind::time, 4, 1},
                                      {Candidate::Kind::time, 64, 1},
                                      {Candidate::Kind::communication, 4, 1}};
  MeasuredMachine machine = plan.measured();
  const auto hinge =
      next_measurements(plan.updates, plan.compute, &plan.communication, machine, 4, all);
  machine.compute_draws.clear();
  machine.machine.table = {{1, 2.4e-3}, {12, 2.4e-3}, {64, 1.28e-2}, {1024, 0.2048}};
  const auto table =
      next_measurements(plan.updates, plan.compute, &plan.communication, machine, 4, all);
  ASSERT_EQ(table.size(), hinge.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(table[i].candidate, hinge[i].candidate) << i;
    EXPECT_DOUBLE_EQ(table[i].gain_per_s, hinge[i].gain_per_s) << i;
  }
}

// What it promises is what measuring then brings.
TEST(NextMeasurement, NarrowsAsItSays) {
  double promised = 0, reached = 0;
  constexpr int kSeeds = 40, kMore = 10;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Plan plan(0.02, 800, 100 + seed);
    MeasuredMachine given;
    given.machine = plan.machine;
    const auto width = [&](const UpdateFit& fit) {
      const Interval i = choose_batch(fit, given, 4, 60000).optimum.interval;
      return std::log(i.high / i.low);
    };
    ComputeFit exact = plan.compute;
    exact.scatter = 0;
    const auto next = next_measurements(plan.updates, exact, nullptr, given, 4, {run(1024, 1)});
    promised += std::log(next[0].narrowing) / kSeeds;
    RandomStream random(100 + seed);
    Training training = plan.training;
    std::vector<UpdateRun> runs = training.runs(random);
    training.batches = {1024};
    training.seeds = kMore;
    for (const UpdateRun& more : training.runs(random)) runs.push_back(more);
    reached += std::log(width(fit_updates(runs, kQuick)) / width(plan.updates)) / kSeeds;
  }
  // Ten runs, each a little less than the one before.
  EXPECT_LT(reached, 3 * promised);
  EXPECT_GT(reached, 10 * promised);
}

// An overhead is under the root of equation 9, as communication is: times of small batches narrow
// it.
TEST(NextMeasurement, AnOverheadIsWorthTimesOfSmallBatches) {
  Machine machine;
  machine.seconds_per_sample = 1e-4;
  machine.overhead_s = 1e-3;
  RandomStream random(3);
  const ComputeFit compute =
      fit_compute(times(machine, {1, 4, 16, 64, 256}, 5, log_normal(0.05), random), kQuick);
  ASSERT_GT(compute.overhead_s.value, 0);
  Training training{{80, 3000}, {4, 32, 256}, 5, gamma_of(100)};
  const UpdateFit updates = fit_updates(training.runs(random), kQuick);
  const std::vector<Candidate> all{{Candidate::Kind::time, 1, 1}, {Candidate::Kind::time, 256, 1}};
  const auto next = next_measurements(updates, compute, nullptr, measured_machine(compute), 1, all);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_GT(next.back().gain_per_s, 0.1 * next.front().gain_per_s);
}

}  // namespace
