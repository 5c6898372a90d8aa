// A coordinator of a batch optimization: who gets which portions.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/service/portion_calls.h"
#include "tests/base/effort.h"
#include "tests/server/coordinator/portion_requests.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;
using calls::PortionAnswer;
using calls::PortionRequest;

// 64 samples, 8 a portion.
constexpr std::uint32_t kPortions = 8;

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
    waits = world.send(calls::kPortions, calls::encode(finished_group(one, {2, 1}, group)));
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
  world.send(calls::kPortions, calls::encode(finished_group(one, {2, 1}, again.group)));
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
  EXPECT_EQ(ask_for_portions(world, {world.join(), {}, {}, {}, false}).kind,
            PortionAnswer::Kind::group);
}

TEST(CoreBatch, WhatALostReplicaHadGoesToWhoWaits) {
  JobPlan plan = small_plan();
  plan.portion = 64;  // one portion
  World world(plan, BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  EXPECT_EQ(ask_for_portions(world, {one, {}, {}, {}, false}).kind, PortionAnswer::Kind::group);
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
  EXPECT_EQ(ask_for_portions(world, {one, {}, {}, {}, false}).kind,
            PortionAnswer::Kind::unknown_client);
}

TEST(CoreBatch, ALossThatIsNotFiniteEndsTheEvaluation) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  world.batch_event(world.core->await_evaluation(world.now, 1));
  const PortionAnswer answer = ask_for_portions(world, {one, {}, {}, {}, false});
  world.send(calls::kPortions,
             calls::encode(finished_group(one, {0, 0}, answer.group,
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
  EXPECT_THROW(ask_for_portions(batch, {batch.join(ClientRole::observer), {}, {}, {}, false}),
               UsageError);
  batch.batch_event(batch.core->begin_evaluation(batch.now, {0, 0}));
  EXPECT_THROW(ask_for_portions(batch, finished_group(replica, {0, 0}, {0, 2})), UsageError)
      << "no such group";

  World other;
  other.ready();
  EXPECT_THROW(ask_for_portions(other, {other.join(), {}, {}, {}, false}), UsageError);
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
        request.finished = finished_group(client, id, held.front()).finished;
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
