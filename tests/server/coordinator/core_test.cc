#include "server/coordinator/core.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/server/coordinator/progress.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using calls::LeaseAnswer;
using test::small_description;
using test::small_plan;
using test::so_far;
using test::World;
using transport::Message;
using LeaseKind = LeaseAnswer::Kind;

TEST(Core, AJobFromItsBeginningToItsEnd) {
  World world;
  EXPECT_FALSE(world.job().description);
  EXPECT_EQ(world.job().servers.size(), 2u);
  EXPECT_EQ(world.job().servers[0].address, "");
  EXPECT_EQ(world.job().configurations.size(), 2u);
  EXPECT_THROW(world.join(), UsageError) << "not described";
  EXPECT_THROW(world.call(calls::kInitialized, calls::encode_nothing()), UsageError);
  world.ready();
  EXPECT_EQ(world.job().description, small_description());
  EXPECT_TRUE(world.job().initialized);
  EXPECT_EQ(world.job().servers[1].address, "server-2");
  world.call(calls::kDescribe, calls::encode(small_description()));  // again
  EXPECT_THROW(world.call(calls::kDescribe, calls::encode(small_description(63))), UsageError);

  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join(), two = world.join();
  EXPECT_NE(one, two);
  EXPECT_EQ(world.progress().replicas, 2u);
  const LeaseAnswer first = world.lease(one);
  ASSERT_EQ(first.kind, LeaseKind::portion);
  EXPECT_EQ(first.portion, (Portion{first.portion.number, 0, 0, 8}));
  EXPECT_EQ(world.lease(one).portion, first.portion) << "the answer had got lost";
  EXPECT_EQ(world.lease(two).portion.begin, 8u);
  EXPECT_EQ(world.lease(one, {}, first.portion.number).portion.begin, 16u) << "one ahead";
  EXPECT_EQ(world.lease(one, {}, 1u << 30).kind, LeaseKind::wait) << "but not more";
  EXPECT_THROW(world.lease(evaluator), UsageError);
  EXPECT_EQ(world.lease(12345).kind, LeaseKind::unknown_client);
  // To the end.
  std::uint64_t done = 0;
  for (const std::uint64_t client : {one, two}) {
    std::vector<std::uint64_t> finished;
    std::uint64_t last = 0;
    for (int i = 0; i < 100; ++i) {
      world.beat(evaluator);
      const LeaseAnswer answer = world.lease(client, std::exchange(finished, {}), last);
      if (answer.kind != LeaseKind::portion) break;
      done += answer.portion.end - answer.portion.begin;
      finished.push_back(last = answer.portion.number);
    }
  }
  EXPECT_EQ(done, 64u);
  EXPECT_TRUE(world.progress().all_done);
  EXPECT_EQ(world.progress().samples, 64u);
  EXPECT_EQ(world.lease(one).kind, LeaseKind::finished);
  EXPECT_THROW(world.call(calls::kEnd, calls::encode(calls::EndRequest{one, "no"})), UsageError);
  world.call(calls::kEnd, calls::encode(calls::EndRequest{evaluator, "done"}));
  world.call(calls::kEnd, calls::encode(calls::EndRequest{evaluator, "again"}));
  EXPECT_EQ(world.job().ended, "done");
  EXPECT_EQ(world.lease(two).why, "done");
  for (const std::uint64_t client : {one, two, evaluator}) {
    world.call(calls::kLeave, calls::encode(calls::ClientRequest{client}));
    world.call(calls::kLeave, calls::encode(calls::ClientRequest{client}));
  }
  EXPECT_EQ(world.progress().replicas, 0u);
  EXPECT_FALSE(world.core->over()) << "servers are told";
  world.pass(3000);
  EXPECT_TRUE(world.core->over());
}

// Ends a job of a replica that hears nothing of it.
std::uint64_t end_without(World& world) {
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  world.call(calls::kEnd, calls::encode(calls::EndRequest{evaluator, "done"}));
  world.call(calls::kLeave, calls::encode(calls::ClientRequest{evaluator}));
  return one;
}

// One whose host is cut off when the job ends hears of it when it is back.
TEST(Core, TheEndIsToldToWhoWasTakenForDead) {
  World world;
  const std::uint64_t one = end_without(world);
  world.pass(30'000);
  EXPECT_FALSE(world.core->over());
  EXPECT_FALSE(world.beat(one));
  EXPECT_EQ(world.job().ended, "done");
  world.pass(40'000);
  EXPECT_TRUE(world.core->over());
}

TEST(Core, TheEndIsToldToWhoWasTakenForDeadAlsoAfterARestart) {
  World world;
  const std::uint64_t one = end_without(world);
  world.pass(10'000);
  EXPECT_FALSE(world.beat(one));
  world.start();
  world.pass(20'000);
  EXPECT_FALSE(world.core->over());
  EXPECT_EQ(world.job().ended, "done");
  world.pass(50'000);
  EXPECT_TRUE(world.core->over());
}

// Those of a job that was started by hand don't leave when it is over.
TEST(Core, NobodyWaitsForThoseWhoHaveHeardOfTheEnd) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t other = world.join(ClientRole::observer);
  const std::uint64_t asks = world.join_shards(world.join());
  const std::uint64_t pair = world.join_shards(world.join(ClientRole::replica, 0, 0, 2));
  const std::uint64_t second = world.join_shards(world.join(ClientRole::replica, pair, 1, 2));
  world.call(calls::kEnd, calls::encode(calls::EndRequest{evaluator, "done"}));
  EXPECT_TRUE(world.beat(other));
  EXPECT_EQ(world.lease(asks).kind, LeaseKind::finished);
  EXPECT_TRUE(world.beat(pair));
  EXPECT_TRUE(world.beat(second));
  world.pass(10'000);
  EXPECT_TRUE(world.core->over());
}

TEST(Core, AReplicaHasHeardOfTheEndWhenAllItsProcessesHave) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t pair = world.join_shards(world.join(ClientRole::replica, 0, 0, 2));
  world.join_shards(world.join(ClientRole::replica, pair, 1, 2));
  world.call(calls::kEnd, calls::encode(calls::EndRequest{evaluator, "done"}));
  EXPECT_TRUE(world.beat(pair));
  world.pass(30'000);
  EXPECT_FALSE(world.core->over());
  world.pass(40'000);
  EXPECT_TRUE(world.core->over());
}

TEST(Core, NothingIsAnsweredBeforeItIsStored) {
  World world;
  world.ready();
  const std::uint64_t one = world.join();
  world.storing = false;
  const auto request = calls::encode(calls::LeaseRequest{one, 0, {}});
  const CallId first = world.send(calls::kLease, request);
  EXPECT_FALSE(world.answer(first));
  const CallId again = world.send(calls::kLease, request);
  EXPECT_FALSE(world.answer(again)) << "nor what was decided before";
  const CallId state = world.send(calls::kJob, calls::encode_nothing());
  EXPECT_FALSE(world.answer(state));
  const CallId status = world.send(calls::kStatus, calls::encode_nothing());
  EXPECT_TRUE(world.answer(status)) << "people may know";
  // It dies: what was not stored has not happened, and nobody knows of it.
  world.start();
  world.storing = true;
  world.store_now();
  EXPECT_FALSE(world.answer(first));
  const LeaseAnswer now = world.lease(one);
  EXPECT_EQ(now.kind, LeaseKind::portion);
  EXPECT_EQ(now.portion.begin, 0u);
  EXPECT_TRUE(world.beat(one));
}

TEST(Core, GoesOnAfterARestart) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join()), two = world.join_shards(world.join());
  const LeaseAnswer first = world.lease(one), second = world.lease(two);
  ReplicaReport report{3, 12, 6.0, 12.0, 1, 2, 3, 4, 5};
  const auto beat = calls::encode(calls::Beat{one, 1, report});
  world.call(calls::kBeat, beat);
  world.call(calls::kBeat, beat);  // its answer got lost
  const std::string id = world.job().id;
  world.start();
  EXPECT_EQ(world.job().id, id);
  EXPECT_TRUE(world.job().initialized);
  EXPECT_EQ(world.job().servers[0].address, "server-1");
  EXPECT_EQ(world.progress().reported.samples, 12u);
  EXPECT_EQ(world.progress().reported.loss_sum, 6.0);
  EXPECT_EQ(world.progress().replicas, 2u);
  EXPECT_EQ(world.lease(one).portion, first.portion);
  EXPECT_EQ(world.lease(two).portion, second.portion);
  const LeaseAnswer third = world.lease(one, {first.portion.number}, first.portion.number);
  EXPECT_EQ(third.portion.begin, 16u);
  EXPECT_GT(third.portion.number, second.portion.number);
  EXPECT_GT(world.join(), two);
  // Nobody is taken for dead before a lease is over.
  world.start();
  world.pass(900);
  EXPECT_TRUE(world.beat(one));
  EXPECT_TRUE(world.beat(evaluator));
  world.pass(400);
  EXPECT_FALSE(world.beat(two));
  EXPECT_TRUE(world.beat(one));
  EXPECT_EQ(world.progress().replicas, 1u);
}

TEST(Core, WhatALostReplicaHasNotDoneIsHandedOutAgain) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join()), two = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  world.shards[0].push(one, 1, so_far(first, 4), {});
  world.shards[1].push(one, 1, so_far(first, 4), {});
  world.shards[0].push(one, 2, so_far(first, 6), {});  // and dies
  for (int i = 0; i < 15; ++i) {
    world.beat(two);
    world.pass(100);
  }
  EXPECT_FALSE(world.beat(one));
  EXPECT_EQ(world.lease(one).kind, LeaseKind::unknown_client);
  EXPECT_EQ(world.progress().samples, 4u);
  EXPECT_EQ(world.progress().twice, 2u);
  const Portion again = world.lease(two).portion;
  EXPECT_EQ(again.begin, 4u);
  EXPECT_EQ(again.end, 8u);
  EXPECT_EQ(world.progress().redone, 1u);
  // The shards know: what it pushes now is not in.
  EXPECT_EQ(world.shards[1].push(one, 2, so_far(first, 6), {})->status, Status::not_member);
  // And are rid of it.
  world.pass(3000);
  for (auto& shard : world.shards) EXPECT_EQ(shard.state.status().clients.size(), 0u);
}

TEST(Core, LeavingWaitsForEveryShardAndNobodyElseWaits) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join()), two = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  for (auto& shard : world.shards) shard.push(one, 1, so_far(first, 8), {});
  world.shards[1].away = true;
  world.call(calls::kLeave, calls::encode(calls::ClientRequest{one}));
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(world.beat(two));
    world.pass(100);
  }
  EXPECT_EQ(world.progress().samples, 0u) << "what the other shard has is not known";
  EXPECT_EQ(world.lease(two).portion.begin, 8u);
  // Not even a restart changes that.
  world.start();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(world.beat(two));
    world.pass(100);
  }
  EXPECT_FALSE(world.beat(one));
  EXPECT_EQ(world.progress().samples, 0u);
  world.shards[1].away = false;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(world.beat(two));
    world.pass(100);
  }
  EXPECT_EQ(world.progress().samples, 8u);
  EXPECT_EQ(world.progress().redone, 0u);
}

TEST(Core, AGroupOfProcessesIsOneReplica) {
  World world;
  world.ready();
  const std::uint64_t one = world.join(ClientRole::replica, 0, 0, 2);
  EXPECT_EQ(world.lease(one).kind, LeaseKind::wait) << "the other one is missing";
  EXPECT_EQ(world.progress().replicas, 0u);
  EXPECT_THROW(world.join(ClientRole::replica, one, 1, 3), UsageError) << "of 3 processes";
  EXPECT_THROW(world.join(ClientRole::replica, 999, 1, 2), UsageError);
  const std::uint64_t ghost = world.join(ClientRole::replica, one, 1, 2);
  const std::uint64_t two = world.join(ClientRole::replica, one, 1, 2);  // an answer got lost
  EXPECT_FALSE(world.beat(ghost));
  EXPECT_EQ(world.progress().replicas, 1u);
  // The second process has vectors on the second shard only.
  world.shards[0].give(join_command(one, ""));
  world.shards[1].give(join_command(one, ""));
  world.shards[1].give(join_command(two, ""));
  const Portion portion = world.lease(two).portion;
  EXPECT_EQ(world.lease(one).portion, portion) << "theirs together";
  world.shards[0].push(one, 1, so_far(portion, 4), {});
  world.shards[1].push(one, 1, so_far(portion, 4), {});
  world.shards[1].push(two, 1, so_far(portion, 3), {});
  // One that leaves waits for the other one; one that dies takes it along.
  world.call(calls::kLeave, calls::encode(calls::ClientRequest{one}));
  EXPECT_EQ(world.progress().samples, 0u);
  EXPECT_TRUE(world.beat(two));
  world.pass(1300);
  EXPECT_FALSE(world.beat(two));
  EXPECT_FALSE(world.beat(one));
  EXPECT_EQ(world.progress().samples, 3u) << "the least of all shards and processes";
  EXPECT_EQ(world.progress().twice, 1u);
}

TEST(Core, TheFirstReplicaWarmsUpAlone) {
  JobPlan plan = small_plan();
  plan.warm_samples = 10;
  World world(plan);
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  const Portion first = world.lease(one).portion;
  EXPECT_EQ(first.end, 8u);
  EXPECT_EQ(world.lease(two).kind, LeaseKind::wait);
  EXPECT_NE(world.lease(two).why.find("warm"), std::string::npos);
  EXPECT_EQ(world.lease(one, {}, first.number).kind, LeaseKind::wait) << "nothing ahead";
  const Portion second = world.lease(one, {first.number}, first.number).portion;
  EXPECT_EQ(second.end - second.begin, 4u) << "2 are left, a batch is 4";
  // The one that warms up dies: the next one goes on.
  world.start();
  for (int i = 0; i < 13; ++i) {
    EXPECT_TRUE(world.beat(two));
    world.pass(100);
  }
  EXPECT_FALSE(world.beat(one));
  const std::uint64_t three = world.join();
  const Portion third = world.lease(two).portion;
  EXPECT_EQ(third.begin, second.begin);
  EXPECT_EQ(world.lease(three).kind, LeaseKind::wait);
  EXPECT_EQ(world.lease(two, {third.number}, third.number).kind, LeaseKind::portion);
  EXPECT_EQ(world.lease(three).kind, LeaseKind::portion) << "it is over";
}

// Who has its samples goes on, whoever asks first behind a restart, and though it has not heard of
// them: else two would train, or nobody would make the rest.
TEST(Core, TheFirstReplicaWarmsUpAloneBehindARestart) {
  JobPlan plan = small_plan();
  plan.warm_samples = 16;
  World world(plan);
  world.ready(16);
  const std::uint64_t one = world.join(), two = world.join();
  const Portion first = world.lease(one).portion;
  world.start();
  EXPECT_EQ(world.lease(two).kind, LeaseKind::wait);
  EXPECT_EQ(world.lease(one).portion, first);
  EXPECT_EQ(world.lease(one, {first.number}, first.number).kind, LeaseKind::portion);
  EXPECT_EQ(world.lease(two).kind, LeaseKind::wait);
}

TEST(Core, WarmingUpEndsAfterATimeAndThatStays) {
  JobPlan plan = small_plan();
  plan.warm_seconds = 0.5;
  World world(plan);
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  EXPECT_EQ(world.lease(one).kind, LeaseKind::portion);
  world.pass(300);
  EXPECT_EQ(world.lease(two).kind, LeaseKind::wait);
  world.pass(300);
  EXPECT_EQ(world.lease(two).kind, LeaseKind::portion);
  world.start();
  EXPECT_EQ(world.lease(two, {}, 1u << 20).kind, LeaseKind::portion);
}

TEST(Core, InRoundsAllBeginTogether) {
  JobPlan plan = small_plan();
  plan.staleness_bound = 0;
  plan.portion = plan.batch;
  World world(plan);
  world.ready();
  const std::uint64_t one = world.join();
  EXPECT_EQ(world.lease(one).kind, LeaseKind::wait);
  EXPECT_NE(world.lease(one).why.find("1 of 2"), std::string::npos);
  const std::uint64_t two = world.join();
  EXPECT_EQ(world.lease(one).kind, LeaseKind::wait) << "shards may not know the other one yet";
  const Portion first = world.lease(two).portion;
  EXPECT_EQ(first.end, 4u);
  EXPECT_EQ(world.lease(two, {first.number}, first.number).kind, LeaseKind::wait);
  world.start();
  EXPECT_EQ(world.lease(one).portion.begin, 4u);
  const Portion next = world.lease(two, {}, first.number).portion;
  EXPECT_EQ(next.begin, 8u);
  // Later one goes on alone, also after a restart.
  world.start();
  for (int i = 0; i < 13; ++i) {
    EXPECT_TRUE(world.beat(two));
    world.pass(100);
  }
  EXPECT_FALSE(world.beat(one));
  EXPECT_EQ(world.lease(two, {next.number}, next.number).portion.begin, 4u);
}

TEST(Core, SaysHowItIs) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join());
  const Portion portion = world.lease(one).portion;
  for (auto& shard : world.shards) shard.push(one, 1, so_far(portion, 4), {});
  world.call(calls::kBeat, calls::encode(calls::Beat{one, 1, {2, 40, 20, 40, 1, 1, 1, 1, 0}}));
  for (int i = 0; i < 20; ++i) {
    world.beat(one);
    world.pass(100);
  }
  const auto status = nlohmann::json::parse(
      calls::decode_text(world.call(calls::kStatus, calls::encode_nothing())));
  EXPECT_EQ(status["job"]["phase"], "training");
  EXPECT_EQ(status["progress"]["reported"]["loss"], 0.5);
  ASSERT_EQ(status["shards"].size(), 2u);
  EXPECT_EQ(status["shards"][1]["primary"], 2);
  EXPECT_EQ(status["shards"][0]["versions"], nlohmann::json({3}));
  EXPECT_EQ(status["shards"][0]["clients"][0]["pushes"], 1);
  EXPECT_EQ(status["pushes_by_staleness"][0], 2);
  ASSERT_EQ(status["clients"].size(), 1u);
  EXPECT_EQ(status["clients"][0]["role"], "replica");
  EXPECT_NEAR(status["clients"][0]["samples_per_s"].get<double>(), 20, 2);
  EXPECT_EQ(status["clients"][0]["leases"][0]["portion"], portion.number);
  EXPECT_EQ(status["servers"][0]["address"], "server-1");
}

}  // namespace
}  // namespace convoy::server::coordinator
