// With which batches updates of several workers are timed, and what that tells of communication.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/plan/measure.h"
#include "cli/plan/sweep_times.h"
#include "cli/plan/trial.h"
#include "convoy/base/error.h"
#include "tests/cli/fake_plan.h"

namespace convoy::cli {
namespace {

using PlanExchanges = FakePlan;

TEST(PlanExchangeBatches, BatchesOfExchangesAreThoseThatWorkersMayHave) {
  const std::vector<std::int64_t> batches{16, 64, 256, 1024};
  EXPECT_EQ(batch_of_exchange(batches, 1, 2), 64);       // the middle of all
  EXPECT_EQ(batch_of_exchange(batches, 12.5, 4), 256);   // of 64, 256, 1024
  EXPECT_EQ(batch_of_exchange(batches, 12.5, 16), 256);  // of two
  EXPECT_EQ(batch_of_exchange(batches, 300, 4), 1024);   // none has so many
  EXPECT_EQ(batch_of_exchange(batches, 1, 2000), 2000);  // a sample for each
  using Batches = std::vector<std::int64_t>;
  EXPECT_EQ(ends_of_exchange(batches, 1, 2), (Batches{16, 1024}));
  EXPECT_EQ(ends_of_exchange(batches, 12.5, 4), (Batches{64, 1024}));
  EXPECT_EQ(ends_of_exchange(batches, 300, 4), Batches{1024});
  EXPECT_EQ(ends_of_exchange(batches, 1, 2000), Batches{2000});
  // Fewer workers have as many each.
  EXPECT_EQ(batch_of_share(batches, 256 / 16.0, 16), 256);
  EXPECT_EQ(batch_of_share(batches, 256 / 16.0, 4), 64);
  EXPECT_EQ(batch_of_share(batches, 256 / 16.0, 3), 64);
  EXPECT_EQ(batch_of_share(batches, 256 / 16.0, 1), 16);
  EXPECT_EQ(batch_of_share(batches, 1, 2000), 2000);
}

TEST_F(PlanExchanges, ExchangesOfFewerWorkersHaveTheShareOfThoseOfMost) {
  Sweep one = sweep();
  one.batches = {8, 16, 32, 64};
  one.timed = {4, 8, 16, 32};
  one.workplace.hosts = parse_hosts("a,b,c,d");
  one.workers = {2, 4};
  one.repetitions = 1;
  one.seeds = 1;
  PlanFolder folder = open(false);
  const auto batches = [&] {
    told([&](std::FILE* out) { measure(planned, one, folder, out); });
    return batches_of_exchanges(folder.points(), one.batches);
  };
  using Batches = std::map<std::int64_t, std::vector<std::int64_t>>;
  EXPECT_EQ(batches(), (Batches{{2, {32}}, {4, {64}}}));
  // That of a number that comes later, too.
  one.workers = {2, 3, 4};
  one.batches = {8, 16, 32, 64, 512, 1000};
  EXPECT_EQ(batches(), (Batches{{2, {32}}, {3, {64}}, {4, {64}}}));
}

std::vector<std::int64_t> batches_of(const std::vector<Exchange>& exchanges) {
  std::vector<std::int64_t> batches;
  for (const Exchange& exchange : exchanges) batches.push_back(exchange.batch);
  return batches;
}

// By which what they lose to each other is told from communication.
TEST(PlanExchangeBatches, WorkersThatShareAHostAreTimedWithTwoBatches) {
  Sweep sweep;
  sweep.batches = {16, 64, 256, 1024};
  sweep.workers = {1, 2, 4};
  sweep.workplace = {.cores = {0, 1, 2, 3}, .places = places_of({0, 1, 2, 3}, {}), .hosts = {}};
  plan::PlanPoints points;
  for (const std::int64_t samples : {1, 4, 16, 64, 256})
    points.times.push_back({samples, 1e-3 * std::max<double>(8, static_cast<double>(samples))});
  const auto batches = [&](std::int64_t workers) {
    return batches_of(exchanges_of(sweep, points, workers));
  };
  using Batches = std::vector<std::int64_t>;
  // M_T is 8: four workers are busy with 64.
  EXPECT_EQ(batches(4), (Batches{64, 1024}));
  EXPECT_EQ(batches(2), (Batches{16, 256})) << "nearly the same shares";
  sweep.memory_samples = 100;
  EXPECT_EQ(batches(4), (Batches{64, 256}));
  sweep.memory_samples = 0;
  // What there is stays, and a plan of before, which had one batch, gets another.
  points.communication = {{4, 1, 256, 2}};
  EXPECT_EQ(batches(4), (Batches{256, 1024}));
  points.communication.push_back({4, 1, 1024, 2});
  EXPECT_EQ(batches(4), (Batches{256, 1024}));
  EXPECT_EQ(batches(2), (Batches{64, 256})) << "half as much each, as near to 512 as 1024";
  // With a host for each there is nothing to lose.
  sweep.workplace.hosts = parse_hosts("a,b:2,c");
  points.communication.clear();
  EXPECT_EQ(batches(2), Batches{64});
  EXPECT_EQ(batches(4).size(), 2u);
  EXPECT_EQ(sweep.workplace.place(2).host_workers(), 1);
  EXPECT_EQ(sweep.workplace.place(4).host_workers(), 2);
}

// Times of before don't say on how many hosts their workers were. Their machine's name does.
TEST(PlanExchangeBatches, TimesOfBeforeLieOnTheHostsOfTheirMachine) {
  Sweep sweep;
  sweep.batches = {64, 128, 512};
  plan::PlanPoints points;
  points.machine = "hosts a:1,b:2,c:1";
  points.communication = {{2, 1, 128, 2}, {4, 1, 128, 2}, {9, 1, 128, 2}, {4, 1, 128, 2, 3}};
  const auto host_workers = [&] {
    std::vector<std::int64_t> all;
    for (const auto& time : points_of(sweep, points).communication)
      all.push_back(time.host_workers);
    return all;
  };
  EXPECT_EQ(host_workers(), (std::vector<std::int64_t>{1, 2, 0, 3}));
  for (const char* other : {"AMD EPYC 7B13, 4 cores", "hosts ", "hosts a:x", ""}) {
    points.machine = other;
    EXPECT_EQ(host_workers(), (std::vector<std::int64_t>{0, 0, 0, 3})) << other;
  }
  // One worker on each host: the batch of the last time counts alone.
  points.machine = "hosts a:1,b:1";
  points.communication = {{2, 1, 64, 2}, {2, 1, 512, 2}};
  EXPECT_EQ(batches_of_exchanges(points, sweep.batches).at(2), std::vector<std::int64_t>{512});
}

// Who has a host alone loses nothing to others, whatever those lose who share one.
TEST(PlanExchangeBatches, TimesOfBeforeOnHostsOfTheirOwnTellNoContention) {
  Sweep sweep;
  sweep.batches = {64, 128, 512};
  plan::PlanPoints points;
  const auto alone = [](double samples) { return 1e-3 * std::max(samples, 8.0); };
  for (const double factor : {0.99, 1.0, 1.01}) {
    for (const std::int64_t samples : {1, 4, 16, 64, 128})
      points.times.push_back({samples, alone(static_cast<double>(samples)) * factor});
    for (const std::int64_t batch : {64, 512}) {
      const double update = 1.1 * alone(static_cast<double>(batch) / 4) + 0.003;
      points.communication.push_back({4, 1e-3, batch, update * (2 - factor), 2});
    }
    points.communication.push_back({2, 1e-3, 128, (alone(64) + 0.003) * (2 - factor)});
  }
  points.machine = "hosts a:1,b:3";
  const plan::Machine machine = machine_of(sweep, points).machine.machine;
  ASSERT_EQ(machine.contention.size(), 2u);
  EXPECT_EQ(machine.contention[0].workers, 2);
  EXPECT_EQ(machine.contention[0].part, 0);
  EXPECT_NEAR(machine.contention[1].part, 0.1, 1e-3);
}

// Of whole updates alone it is told what workers lose to each other.
TEST_F(PlanExchanges, TimesOfBeforeWithoutUpdatesAreMeasuredAnew) {
  Sweep one = sweep();
  one.workplace.hosts = parse_hosts("a,b");
  one.workers = {1, 2};
  one.repetitions = 2;
  one.seeds = 1;
  PlanFolder folder = open(false);
  folder.move_to(one.workplace.name());
  for (int i = 0; i < 2; ++i) folder.add(plan::CommunicationSample{2, 5, 64});
  const auto said = [&] {
    return told([&](std::FILE* out) { measure(planned, one, folder, out); });
  };
  const std::string text = said();
  EXPECT_TRUE(has(text, "do not say how long whole updates took")) << text;
  EXPECT_EQ(folder.points().communication.size(), 4u);
  const auto counted = points_of(one, folder.points()).communication;
  ASSERT_EQ(counted.size(), 2u);
  for (const auto& time : counted) EXPECT_GT(time.update_s, 0);
}

// Of trainings that are made up it is known how long they take.
TEST_F(PlanExchanges, WhatWorkersLoseToEachOtherIsToldFromCommunication) {
  script({{"per_sample", 0.01}, {"contention", 0.1}, {"delta", 0.02}});
  Sweep one = sweep();
  one.batches = {8, 64, 256};
  one.timed = {1, 4, 16, 64, 256};
  one.workplace.cores = {0, 1};
  one.workers = {1, 2};
  one.repetitions = 3;
  one.seeds = 1;
  PlanFolder folder = open(false);
  told([&](std::FILE* out) { measure(planned, one, folder, out); });
  std::multiset<std::int64_t> batches;
  for (const auto& time : folder.points().communication) {
    batches.insert(time.batch);
    EXPECT_EQ(time.host_workers, 2);
  }
  EXPECT_EQ(batches, (std::multiset<std::int64_t>{8, 8, 8, 256, 256, 256}));
  const plan::Machine machine = machine_of(one, points_of(one, folder.points())).machine.machine;
  ASSERT_EQ(machine.contention.size(), 1u);
  EXPECT_NEAR(machine.contention[0].part, 0.1, 1e-6);
  EXPECT_NEAR(machine.communication.delta_s, 0.02, 1e-6);
  for (const std::int64_t batch : {8, 32, 64, 100}) {
    const double computing = 0.1 + 0.01 * static_cast<double>(batch) / 2;
    EXPECT_NEAR(plan::seconds_per_update(machine, batch, 2), 1.1 * computing + 0.02, 1e-5);
  }
}

// As many as are wanted have to be near to each other, which twice as many need not be.
TEST(PlanExchangeBatches, UpdatesThatSomethingElseDelaysAreTimedAgain) {
  plan::PlanPoints points;
  const auto disturbed = [&](double seconds, std::int64_t batch = 8) {
    points.communication.push_back({2, 0.1, batch, seconds, 2});
    return is_disturbed(points, {8, {.workers = 2}}, 3);
  };
  EXPECT_FALSE(disturbed(1)) << "there are to be two more at any rate";
  EXPECT_FALSE(disturbed(1.05));
  EXPECT_FALSE(disturbed(0.96));
  points.communication.pop_back();
  EXPECT_TRUE(disturbed(1.7));
  EXPECT_TRUE(disturbed(1.01, 64)) << "of another batch";
  EXPECT_FALSE(disturbed(1.02)) << "three are near to each other";
  points.communication.pop_back();
  EXPECT_TRUE(disturbed(1.4));
  EXPECT_TRUE(disturbed(2.4));
  EXPECT_FALSE(disturbed(3)) << "that is how it is here";
}

// With the smaller one there is an answer, as plans of before had it.
TEST_F(PlanExchanges, ExchangesLeaveOutALargerBatchThatFails) {
  script({{"crashing", {64}}});
  PlanFolder folder = open(false);
  const auto time = [&](const std::vector<Exchange>& exchanges) {
    return told([&](std::FILE* out) {
      measure_communication(planned, folder, exchanges, {8, 64}, 2, {}, out);
    });
  };
  const std::string text = time({{8, {.workers = 2}}, {64, {.workers = 2}}});
  EXPECT_TRUE(has(text,
                  "a batch of 64 needs more memory than there is; updates of 2 workers are "
                  "timed with the smaller batch alone\n"))
      << text;
  ASSERT_EQ(folder.points().communication.size(), 4u) << "as many as of both together";
  for (const auto& measured : folder.points().communication) EXPECT_EQ(measured.batch, 8);
  EXPECT_THROW(time({{64, {.workers = 2}}}), TrialFailure) << "there is no smaller one";
}

// As what is refused before a training begins, for its memory.
TEST_F(PlanExchanges, ExchangesLeaveOutALargerBatchThatIsRefused) {
  script({{"refused", {64}}});
  PlanFolder folder = open(false);
  const auto time = [&](const std::vector<Exchange>& exchanges) {
    return told([&](std::FILE* out) {
      measure_communication(planned, folder, exchanges, {8, 64}, 2, {}, out);
    });
  };
  const std::string text = time({{8, {.workers = 2}}, {64, {.workers = 2}}});
  EXPECT_TRUE(has(text, "timing updates of 64 samples on 2 workers failed: batches of 64 are ref"))
      << text;
  EXPECT_TRUE(has(text, "; updates of 2 workers are timed with the smaller batch alone\n")) << text;
  ASSERT_EQ(folder.points().communication.size(), 4u) << "as many as of both together";
  for (const auto& measured : folder.points().communication) EXPECT_EQ(measured.batch, 8);
  EXPECT_THROW(time({{64, {.workers = 2}}}), UsageError) << "there is no smaller one";
}

// As that of batch normalization with one sample for each worker.
TEST_F(PlanExchanges, ExchangesTakeALargerBatchWhereOneIsRefused) {
  script({{"refused", {8}}});
  PlanFolder folder = open(false);
  const auto time = [&](const std::vector<std::int64_t>& batches) {
    return told([&](std::FILE* out) {
      measure_communication(planned, folder, {{8, {.workers = 2}}}, batches, 2, {}, out);
    });
  };
  EXPECT_TRUE(has(test::message_of<UsageError>([&] {
                    time({4, 8});
                  }),
                  "timing updates of 8 samples on 2 workers failed: batches of 8 are refused; add "
                  "a larger one to --batches, or plan for fewer --workers"));
  const std::string text = time({4, 8, 16, 32});
  EXPECT_TRUE(has(text, "batches of 8 are refused; the next larger batch takes its place\n"))
      << text;
  ASSERT_EQ(folder.points().communication.size(), 2u);
  for (const auto& measured : folder.points().communication) EXPECT_EQ(measured.batch, 16);
}

// How much of it is hidden depends on the batch.
TEST_F(PlanExchanges, CommunicationCountsForTheBatchesItWasTimedWith) {
  Sweep one = sweep();
  one.workplace.hosts = parse_hosts("a,b");
  one.workers = {1, 2};
  one.repetitions = 2;
  one.seeds = 1;
  PlanFolder folder = open(false);
  const auto batches = [&](const Sweep& sweep, const plan::PlanPoints& points) {
    told([&](std::FILE* out) { measure(planned, sweep, folder, out); });
    std::vector<std::int64_t> all;
    for (const auto& time : points_of(sweep, points).communication) all.push_back(time.batch);
    return all;
  };
  using Batches = std::vector<std::int64_t>;
  EXPECT_EQ(batches(one, folder.points()), (Batches{64, 64}));
  Sweep other = one;
  other.batches = {128, 256};
  EXPECT_EQ(batches(other, folder.points()), (Batches{128, 128}));
  EXPECT_EQ(folder.points().communication.size(), 4u);
  // What is there counts again, also where M_T would have it another one by now.
  other.batches = {64, 128, 512};
  EXPECT_EQ(batches(other, folder.points()), (Batches{128, 128}));
  EXPECT_EQ(batches(one, folder.points()), (Batches{64, 64}));
  EXPECT_EQ(folder.points().communication.size(), 4u);
  // Times of before don't say their batch.
  plan::PlanPoints old = folder.points();
  for (auto& time : old.communication) time.batch = 0;
  EXPECT_TRUE(points_of(one, old).communication.empty());
}

}  // namespace
}  // namespace convoy::cli
