// A coordinator of a batch optimization: portions, and what the method keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/service/portion_calls.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;
using calls::PortionAnswer;
using calls::PortionRequest;
using calls::WatchAnswer;
using calls::WatchRequest;

// 64 samples, 8 a portion.
constexpr std::uint32_t kPortions = 8;

PortionAnswer ask(World& world, const PortionRequest& request) {
  return calls::decode_portion_answer(world.call(calls::kPortions, calls::encode(request)));
}

PortionRequest finished(std::uint64_t client, const EvaluationId& id, const PortionGroup& group,
                        double loss = 1) {
  return {client, id, {}, {{group, std::vector<double>(portions_of(group), loss)}}, false};
}

TEST(CoreBatch, ReplicasGetPortionsAndTheLossCountsOnce) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  // Nothing is there before the method asks for it: who asks waits.
  const CallId early =
      world.send(calls::kPortions, calls::encode(PortionRequest{one, {}, {}, {}, false}));
  EXPECT_FALSE(world.answer(early));
  world.batch_event(world.core->begin_evaluation(world.now, {2, 1}));
  ASSERT_TRUE(world.answer(early));
  PortionAnswer answer = calls::decode_portion_answer(*world.answer(early));
  world.batch_event(world.core->await_evaluation(world.now, 17));
  EXPECT_EQ(answer.evaluation, (EvaluationId{2, 1}));
  EXPECT_EQ(answer.portions, kPortions);
  std::set<std::uint32_t> done;
  CallId waits = 0;
  while (done.size() < kPortions) {
    ASSERT_EQ(answer.kind, PortionAnswer::Kind::group);
    const PortionGroup group = answer.group;
    for (std::uint32_t each = group.first; each < end_of(group); ++each) done.insert(each);
    EXPECT_TRUE(world.evaluations.empty());
    world.pass(100);
    world.beat(two);
    waits = world.send(calls::kPortions, calls::encode(finished(one, {2, 1}, group)));
    if (const auto said = world.answer(waits)) answer = calls::decode_portion_answer(*said);
  }
  ASSERT_EQ(world.evaluations.size(), 1u);
  EXPECT_EQ(world.evaluations[0].token, 17u);
  EXPECT_TRUE(world.evaluations[0].finite);
  EXPECT_EQ(world.evaluations[0].loss, 8.0);
  // Some shard lacks one.
  const std::vector<PortionRange> missing = {{3, 4}};
  world.batch_event(world.core->portions_missing(world.now, missing));
  world.batch_event(world.core->await_evaluation(world.now, 18));
  EXPECT_EQ(world.evaluations.size(), 1u);
  ASSERT_TRUE(world.answer(waits)) << "who waited has it";
  const PortionAnswer again = calls::decode_portion_answer(*world.answer(waits));
  ASSERT_EQ(again.kind, PortionAnswer::Kind::group);
  EXPECT_LE(again.group.first, 3u);
  EXPECT_GT(end_of(again.group), 3u);
  world.send(calls::kPortions, calls::encode(finished(one, {2, 1}, again.group)));
  ASSERT_EQ(world.evaluations.size(), 2u);
  EXPECT_EQ(world.evaluations[1].loss, 8.0);

  const auto status = nlohmann::json::parse(
      calls::decode_text(world.call(calls::kStatus, calls::encode_nothing())));
  EXPECT_EQ(status["batch"]["portions"], kPortions);
  EXPECT_EQ(status["batch"]["portions_done"], kPortions);
  EXPECT_EQ(status["batch"]["evaluation"], "2.1");
  EXPECT_EQ(status["batch"]["portions_again"], portions_of(again.group));
}

TEST(CoreBatch, WhoWaitsIsAnsweredAfterAWhileAndWhenTheJobEnds) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const CallId waits =
      world.send(calls::kPortions, calls::encode(PortionRequest{one, {}, {}, {}, false}));
  for (int i = 0; i < 12; ++i) {
    world.pass(500);
    world.beat(one);
    world.beat(evaluator);
  }
  ASSERT_TRUE(world.answer(waits));
  EXPECT_EQ(calls::decode_portion_answer(*world.answer(waits)).kind, PortionAnswer::Kind::wait);
  const CallId ends =
      world.send(calls::kPortions, calls::encode(PortionRequest{one, {}, {}, {}, false}));
  world.call(calls::kEnd, calls::encode(calls::EndRequest{evaluator, "the gradient is small"}));
  world.tick();
  ASSERT_TRUE(world.answer(ends));
  const PortionAnswer over = calls::decode_portion_answer(*world.answer(ends));
  EXPECT_EQ(over.kind, PortionAnswer::Kind::finished);
  EXPECT_EQ(over.why, "the gradient is small");
}

// Processes of one replica don't come at the same time.
TEST(CoreBatch, AReplicaThatIsNotCompleteWaits) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  const std::uint64_t first = world.join(ClientRole::replica, 0, 0, 2);
  const auto asks = [&] {
    return world.send(calls::kPortions, calls::encode(PortionRequest{first, {}, {}, {}, false}));
  };
  const CallId early = asks();
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(world.answer(early).has_value(), i > 10) << i;
    world.pass(490);
    world.beat(first);
  }
  const PortionAnswer wait = calls::decode_portion_answer(*world.answer(early));
  EXPECT_EQ(wait.kind, PortionAnswer::Kind::wait);
  EXPECT_EQ(wait.why, "1 of this replica's 2 processes are here");
  const CallId given_up = asks(), again = asks();
  EXPECT_TRUE(world.answer(given_up));
  EXPECT_FALSE(world.answer(again));
  world.join(ClientRole::replica, first, 1, 2);
  ASSERT_TRUE(world.answer(again));
  EXPECT_EQ(calls::decode_portion_answer(*world.answer(again)).kind, PortionAnswer::Kind::group);
}

// A batch is no round: nobody waits for others.
TEST(CoreBatch, AStalenessBoundIsNoneOfPortions) {
  JobPlan plan = small_plan();
  plan.staleness_bound = 0;
  plan.portion = plan.batch;
  World world(plan, BatchGroups{});
  world.ready();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  EXPECT_EQ(ask(world, {world.join(), {}, {}, {}, false}).kind, PortionAnswer::Kind::group);
}

TEST(CoreBatch, WhatALostReplicaHadGoesToWhoWaits) {
  JobPlan plan = small_plan();
  plan.portion = 64;  // one portion
  World world(plan, BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  EXPECT_EQ(ask(world, {one, {}, {}, {}, false}).kind, PortionAnswer::Kind::group);
  const CallId waits =
      world.send(calls::kPortions, calls::encode(PortionRequest{two, {}, {}, {}, false}));
  for (int i = 0; i < 4; ++i) {
    world.pass(400);
    world.beat(two);
  }
  ASSERT_TRUE(world.answer(waits));
  const PortionAnswer again = calls::decode_portion_answer(*world.answer(waits));
  EXPECT_EQ(again.kind, PortionAnswer::Kind::group);
  EXPECT_FALSE(again.copy);
  EXPECT_EQ(ask(world, {one, {}, {}, {}, false}).kind, PortionAnswer::Kind::unknown_client);
}

TEST(CoreBatch, ALossThatIsNotFiniteEndsTheEvaluation) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  world.batch_event(world.core->await_evaluation(world.now, 1));
  const PortionAnswer answer = ask(world, {one, {}, {}, {}, false});
  world.send(calls::kPortions, calls::encode(finished(one, {0, 0}, answer.group,
                                                      std::numeric_limits<double>::infinity())));
  ASSERT_EQ(world.evaluations.size(), 1u);
  EXPECT_FALSE(world.evaluations[0].finite);
  EXPECT_EQ(world.evaluations[0].not_finite, answer.group.first);
}

TEST(CoreBatch, RefusesWhatIsNotOfThisKindOfJob) {
  World batch(small_plan(), BatchGroups{});
  EXPECT_THROW(batch.core->begin_evaluation(batch.now, {0, 0}), UsageError) << "no description";
  batch.ready();
  const std::uint64_t replica = batch.join();
  EXPECT_THROW(batch.lease(replica), UsageError);
  EXPECT_THROW(ask(batch, {batch.join(ClientRole::observer), {}, {}, {}, false}), UsageError);
  batch.batch_event(batch.core->begin_evaluation(batch.now, {0, 0}));
  EXPECT_THROW(ask(batch, finished(replica, {0, 0}, {0, 2})), UsageError) << "no such group";

  World other;
  other.ready();
  EXPECT_THROW(ask(other, {other.join(), {}, {}, {}, false}), UsageError);
  EXPECT_THROW(other.core->begin_evaluation(other.now, {0, 0}), UsageError);
  EXPECT_FALSE(other.core->batch_groups());
}

// A description comes from a client.
TEST(CoreBatch, RefusesMorePortionsThanItCanHandOut) {
  World world(small_plan(), BatchGroups{});
  const auto describe = [&](std::uint64_t samples) {
    world.call(calls::kDescribe, calls::encode(small_description(samples)));
  };
  for (const std::uint64_t portions :
       {std::uint64_t{(1 << 24) + 1}, (std::uint64_t{1} << 32) + 5, std::uint64_t{1} << 53}) {
    try {
      describe(8 * portions);
      ADD_FAILURE() << portions;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(portions)), std::string::npos)
          << error.what();
    }
    EXPECT_FALSE(world.core->facts().described);
  }
  describe(64);
  ASSERT_TRUE(world.core->batch_groups());
  EXPECT_EQ(world.core->batch_groups()->portions, kPortions);
}

TEST(CoreBatch, KeepsWhatTheMethodGoesOnFrom) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  BatchStart start;
  start.commands = 5;
  const BatchAnswers answers{5, {{1, {2.5}}}};
  world.storing = false;
  world.batch_event(world.core->keep_batch(world.now, 1, encode(start), {}));
  EXPECT_TRUE(world.kept.empty()) << "not before it is stored";
  world.store_now();
  EXPECT_EQ(world.kept, (std::vector<std::uint64_t>{1}));
  world.storing = true;
  world.batch_event(world.core->keep_batch(world.now, 2, std::nullopt, encode(answers)));
  world.cut_power();
  EXPECT_EQ(world.core->batch_start(), encode(start));
  EXPECT_EQ(world.core->batch_answers(), encode(answers));
  world.batch_event(world.core->keep_batch(world.now, 3, encode(start), {}));
  EXPECT_TRUE(world.core->batch_answers().empty());
}

WatchAnswer watch(World& world, std::uint64_t client, WatchRequest::Hold hold,
                  std::uint64_t after = 0) {
  return calls::decode_watch_answer(
      world.call(calls::kWatch, calls::encode(WatchRequest{client, after, hold})));
}

// Replica 1 is lost with a group that replica 2 gets again; 2 has a copy of what 3 is late with.
TEST(CoreBatch, SaysWhoHadWhatWhen) {
  JobPlan plan = small_plan();
  plan.portion = 32;  // two of them
  World world(plan, BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  EXPECT_EQ(ask(world, {one, {}, {}, {}, false}).group, (PortionGroup{0, 0}));
  EXPECT_EQ(ask(world, {two, {}, {}, {}, false}).group, (PortionGroup{1, 0}));
  for (int i = 0; i < 4; ++i) {
    world.pass(400);
    world.beat(two);
  }
  PortionAnswer answer = ask(world, finished(two, {0, 0}, {1, 0}));
  EXPECT_EQ(answer.group, (PortionGroup{0, 0}));
  EXPECT_FALSE(answer.copy);
  const std::uint64_t three = world.join();
  for (int i = 0; i < 40; ++i) {
    world.pass(400);
    world.beat(two);
    world.beat(three);
  }
  answer = ask(world, {three, {}, {}, {}, false});
  EXPECT_EQ(answer.group, (PortionGroup{0, 0}));
  EXPECT_TRUE(answer.copy);
  world.send(calls::kPortions, calls::encode(finished(three, {0, 0}, {0, 0})));
  world.send(calls::kPortions, calls::encode(finished(two, {0, 0}, {0, 0})));

  world.core->count_method_bytes(300);
  world.core->count_method_bytes(4);
  const WatchAnswer said = watch(world, 0, WatchRequest::Hold::keep);
  const BatchProgress& progress = said.progress;
  EXPECT_EQ(progress.method_bytes, 304u);
  EXPECT_GT(progress.portion_bytes, 0u);
  EXPECT_EQ(progress.now, (PortionCounts{2, 1, 1, 1}));
  EXPECT_EQ(progress.all, progress.now);
  ASSERT_EQ(progress.replicas.size(), 3u);
  EXPECT_EQ(progress.replicas[0].portions, (PortionCounts{0, 0, 0, 0}));
  EXPECT_FALSE(progress.replicas[0].here);
  EXPECT_EQ(progress.replicas[1].portions, (PortionCounts{1, 1, 0, 1}));
  EXPECT_TRUE(progress.replicas[1].here);
  EXPECT_EQ(progress.replicas[2].portions, (PortionCounts{1, 0, 1, 0}));
  EXPECT_NEAR(progress.replicas[1].busy_s, 17.6, 1e-6);
  EXPECT_DOUBLE_EQ(progress.replicas[2].busy_s, 0);
  ASSERT_EQ(progress.groups.size(), 4u);
  using End = GroupRecord::End;
  const auto row = [&](std::size_t i) {
    const GroupRecord& record = progress.groups[i];
    EXPECT_EQ(record.number, i + 1);
    return std::tuple(record.replica, record.group.first, record.copy, record.end);
  };
  EXPECT_EQ(row(0), std::tuple(one, 0u, false, End::lost));
  EXPECT_EQ(row(1), std::tuple(two, 1u, false, End::counted));
  EXPECT_EQ(row(2), std::tuple(three, 0u, true, End::counted));
  EXPECT_EQ(row(3), std::tuple(two, 0u, false, End::unused));
  EXPECT_NEAR(progress.groups[3].ended_s - progress.groups[3].began_s, 16.0, 1e-6);
  EXPECT_EQ(watch(world, 0, WatchRequest::Hold::keep, 3).progress.groups.size(), 1u);

  const auto status = nlohmann::json::parse(
      calls::decode_text(world.call(calls::kStatus, calls::encode_nothing())));
  EXPECT_EQ(status["batch"]["all"]["portions_copied"], 1);
  EXPECT_EQ(status["batch"]["replicas"][1]["portions_again"], 1);
  EXPECT_EQ(status["batch"]["replicas"][0]["here"], false);
  EXPECT_EQ(status["batch"]["over"], nullptr);
  EXPECT_EQ(status["batch"]["method_bytes"], 304);
  EXPECT_EQ(status["batch"]["portion_bytes"], progress.portion_bytes);
  const std::string metrics = metrics_text(world.core->facts());
  for (const char* line :
       {"\nconvoy_batch_iterations_total 0\n", "\nconvoy_batch_portions 2\n",
        "\nconvoy_batch_evaluation_portions_done 2\n", "\nconvoy_batch_method_bytes_total 304\n",
        ",became=\"unused\"} 1\n", "# TYPE convoy_batch_replica_busy_seconds_total counter\n"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
}

TEST(CoreBatch, EvaluatorsHoldVectorsUntilTheyLetGoOrAreGone) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(ClientRole::evaluator);
  const std::uint64_t two = world.join(ClientRole::evaluator);
  const auto hold = [&](std::uint64_t client) {
    return watch(world, client, WatchRequest::Hold::hold);
  };
  EXPECT_TRUE(hold(one).start.empty());
  EXPECT_TRUE(world.core->batch_held().empty());
  BatchStart start;
  start.begun = true;
  start.state.iteration = 2;
  start.state.weights = {optim::VectorRole::weights, 2, 1};
  start.state.history = {2};
  const auto reach = [&] {
    world.batch_event(world.core->keep_batch(world.now, 1, encode(start), {}));
    return optim::vectors_of(start.state, optim::BatchMethod::lbfgs);
  };
  const auto second = reach();
  EXPECT_EQ(hold(one).start, encode(start));
  EXPECT_EQ(world.core->batch_held().size(), second.size());
  start.state.iteration = 3;
  start.state.weights = {optim::VectorRole::weights, 3, 0};
  const auto third = reach();
  hold(two);
  const auto both = world.core->batch_held();
  for (const auto& names : {second, third}) {
    for (const optim::VectorName& name : names)
      EXPECT_NE(std::find(both.begin(), both.end(), name), both.end()) << to_string(name);
  }
  watch(world, one, WatchRequest::Hold::let_go);
  EXPECT_EQ(world.core->batch_held().size(), third.size());
  watch(world, 0, WatchRequest::Hold::keep);
  EXPECT_EQ(world.core->batch_held().size(), third.size());
  world.pass(5000);  // longer than its lease
  world.tick();
  EXPECT_TRUE(world.core->batch_held().empty());
  EXPECT_THROW(hold(two), UsageError);
  EXPECT_THROW(hold(world.join()), UsageError) << "a replica";
}

TEST(CoreBatch, BeginsFromACheckpointOnce) {
  World world(small_plan(), BatchGroups{});
  world.ready(64, false);
  std::uint64_t evaluator = world.join(ClientRole::evaluator);
  BatchStart start;
  start.begun = true;
  start.state.iteration = 7;
  const auto begin_from = [&](const BatchStart& from) {
    world.call(calls::kBeginFrom, calls::encode(calls::BatchFrom{evaluator, encode(from)}));
  };
  begin_from(start);
  EXPECT_EQ(world.core->batch_start(), encode(start));
  world.cut_power();
  EXPECT_EQ(world.core->batch_start(), encode(start));
  evaluator = world.join(ClientRole::evaluator);
  BatchStart other = start;
  other.state.iteration = 8;
  begin_from(other);  // it has begun
  EXPECT_EQ(world.core->batch_start(), encode(start));
  other.commands = 3;
  EXPECT_THROW(begin_from(other), UsageError);
  EXPECT_THROW(begin_from({}), UsageError);
  world.batch_event(world.core->batch_over(world.now, "all 7 iterations are done"));
  EXPECT_EQ(watch(world, 0, WatchRequest::Hold::keep).progress.over, "all 7 iterations are done");
}

// Killed and without power at any moment: every portion is done once, in groups that don't change.
TEST(CoreBatch, ComesBackWithTheSameGroups) {
  for (std::uint64_t seed = 1; seed <= (convoy::test::all_cases() ? 300u : 40u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    JobPlan plan = small_plan();
    plan.portion = 4;
    World world(plan, BatchGroups{static_cast<std::uint8_t>(random() % 4), random() % 2 == 0});
    world.ready();
    std::map<std::uint64_t, std::vector<PortionGroup>> replicas;
    std::map<std::uint64_t, CallId> waits;
    for (int i = 0; i < 3; ++i) replicas[world.join()];
    std::map<std::uint32_t, PortionGroup> seen;  // by portion: the group that it is in
    const EvaluationId id{1, 0};
    world.batch_event(world.core->begin_evaluation(world.now, id));
    world.batch_event(world.core->await_evaluation(world.now, 1));
    for (int i = 0; i < 3000 && world.evaluations.empty(); ++i) {
      world.pass(random() % 200);
      for (const auto& [client, held] : replicas) world.beat(client);
      if (random() % 15 == 0) {
        random() % 2 == 0 ? world.cut_power() : world.start();
        waits.clear();
        world.batch_event(world.core->begin_evaluation(world.now, id));
        world.batch_event(world.core->await_evaluation(world.now, 1));
        continue;
      }
      auto& [client, held] =
          *std::next(replicas.begin(), static_cast<std::ptrdiff_t>(random() % replicas.size()));
      const auto take = [&, &mine = held](CallId call) {
        const auto said = world.answer(call);
        if (!said) return false;
        const PortionAnswer answer = calls::decode_portion_answer(*said);
        for (const PortionGroup& each : answer.unused) std::erase(mine, each);
        if (answer.kind == PortionAnswer::Kind::unknown_client) mine.clear();
        if (answer.kind != PortionAnswer::Kind::group) return true;
        mine.push_back(answer.group);
        for (std::uint32_t each = answer.group.first; each < end_of(answer.group); ++each) {
          EXPECT_EQ(seen.try_emplace(each, answer.group).first->second, answer.group);
        }
        return true;
      };
      if (const auto found = waits.find(client); found != waits.end()) {
        if (take(found->second)) waits.erase(found);
        if (random() % 2 == 0) continue;
      }
      PortionRequest request{client, id, held, {}, false};
      if (!held.empty() && random() % 2 == 0) {
        request.finished = finished(client, id, held.front()).finished;
        held.erase(held.begin());
        request.held = held;
      }
      if (held.size() >= 2) continue;
      // The one before is answered by this.
      const auto before = waits.find(client);
      const CallId call = world.send(calls::kPortions, calls::encode(request));
      if (before != waits.end()) take(before->second);
      waits[client] = call;
      if (take(call)) waits.erase(client);
      if (::testing::Test::HasFailure()) return;
    }
    ASSERT_EQ(world.evaluations.size(), 1u);
    EXPECT_EQ(world.evaluations[0].loss, 16.0);
    EXPECT_EQ(seen.size(), 16u);
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
