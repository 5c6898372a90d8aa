// What a coordinator may not do while its store is slow, its host loses power, or its term is over.
#include <gtest/gtest.h>

#include <vector>

#include "server/coordinator/core.h"
#include "tests/server/coordinator/progress.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using test::small_plan;
using test::so_far;
using test::World;
using LeaseKind = calls::LeaseAnswer::Kind;

transport::Message client_request(std::uint64_t client) {
  return calls::encode(calls::ClientRequest{client});
}

std::size_t commands(const World& world) {
  std::size_t all = 0;
  for (const auto& shard : world.shards) all += shard.commands;
  return all;
}

TEST(CoreStores, ShardsKnowAReplicaUntilItIsStoredWhatItHasDone) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join());
  const Portion portion = world.lease(one).portion;
  for (auto& shard : world.shards) shard.push(one, 1, so_far(portion, 8), {});
  world.storing = false;
  world.send(calls::kLeave, client_request(one));
  while (world.store_one() && !world.says("has left")) {
  }
  ASSERT_TRUE(world.says("has left"));
  for (int i = 0; i < 30; ++i) world.pass(100);
  for (auto& shard : world.shards) EXPECT_EQ(shard.state.status().clients.size(), 1u);
  // It dies with the ledger unstored.
  world.start();
  world.storing = true;
  for (int i = 0; i < 10; ++i) world.pass(100);
  EXPECT_EQ(world.progress().samples, 8u);
  EXPECT_EQ(world.progress().twice, 0u);
  for (int i = 0; i < 30; ++i) world.pass(100);
  for (auto& shard : world.shards) EXPECT_TRUE(shard.state.status().clients.empty());
}

TEST(CoreStores, WhatNoShardKnowsOfMayBeUsedTwice) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  world.lease(one, {}, first.number);
  for (auto& shard : world.shards) {
    shard.give(leave_command(one));
    shard.give(forget_command(one));
  }
  world.call(calls::kLeave, client_request(one));
  world.pass(200);
  EXPECT_EQ(world.progress().samples, 0u);
  EXPECT_EQ(world.progress().twice, 16u);
  EXPECT_EQ(world.lease(world.join()).portion.begin, 0u);
}

TEST(CoreStores, APowerCutTakesNothingThatReplicasTellOnce) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join());
  world.settle();
  const Portion first = world.lease(one).portion;
  const Portion second = world.lease(one, {}, first.number).portion;
  const Portion third = world.lease(one, {first.number}, second.number).portion;
  world.cut_power();
  EXPECT_EQ(world.progress().samples, 8u);
  std::uint64_t last = third.number;
  calls::LeaseAnswer answer = world.lease(one, {second.number, third.number}, last);
  while (answer.kind == LeaseKind::portion) {
    last = answer.portion.number;
    answer = world.lease(one, {last}, last);
  }
  EXPECT_EQ(answer.kind, LeaseKind::finished) << answer.why;
  EXPECT_EQ(world.progress().samples, 64u);
}

TEST(CoreStores, NobodyGoesWhileSamplesMayComeBack) {
  JobPlan plan = small_plan();
  plan.staleness_bound = 0;
  plan.portion = plan.batch;
  World world(plan);
  world.ready(8);
  const std::uint64_t one = world.join_shards(world.join()), two = world.join_shards(world.join());
  EXPECT_EQ(world.lease(one).kind, LeaseKind::wait) << "in rounds all begin together";
  const Portion second = world.lease(two).portion, first = world.lease(one).portion;
  world.shards[1].away = true;
  world.call(calls::kLeave, client_request(one));
  EXPECT_EQ(world.lease(two, {second.number}, second.number).kind, LeaseKind::wait);
  world.shards[1].away = false;
  world.pass(500);
  const calls::LeaseAnswer back = world.lease(two, {}, second.number);
  ASSERT_EQ(back.kind, LeaseKind::portion);
  EXPECT_EQ(back.portion.begin, first.begin);
  EXPECT_EQ(world.lease(two, {back.portion.number}, back.portion.number).kind, LeaseKind::finished);
}

// A later coordinator's clients and cuts are none that this one knows of.
TEST(CoreStores, ShardsAreToldNothingBeforeAWriteSucceeds) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  const auto made = world.answer(world.send(calls::kMakeCut, client_request(evaluator)));
  ASSERT_TRUE(made);
  const std::uint64_t cut = calls::decode_made_cut(*made).id;
  world.pass(100);
  const std::size_t before = commands(world);
  for (auto& shard : world.shards) shard.give(join_command(99999, "another coordinator's"));
  world.storing = false;  // nor will it ever
  world.send(calls::kDropCut, calls::encode(calls::DropCutRequest{evaluator, cut}));
  world.send(calls::kLeave, client_request(one));
  world.pass(900);
  for (int i = 0; i < 30; ++i) world.pass(100);
  EXPECT_EQ(commands(world), before);
  world.storing = true;
  world.store_now();
  for (int i = 0; i < 30; ++i) world.pass(100);
  EXPECT_GT(commands(world), before);
  for (auto& shard : world.shards) {
    EXPECT_TRUE(shard.state.status().clients.empty());
    EXPECT_TRUE(shard.state.status().cuts.empty());
  }
}

TEST(CoreStores, AClientHasOneRequestForACut) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t other = world.join(ClientRole::evaluator);
  world.shards[1].away = true;
  std::vector<CallId> asked, waiting;
  for (int i = 0; i < 3; ++i) {
    asked.push_back(world.send(calls::kMakeCut, client_request(evaluator)));
    waiting.push_back(world.send(calls::kMakeCut, client_request(other)));
    world.pass(200);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(world.answer(asked[static_cast<std::size_t>(i)]), UsageError);
    EXPECT_THROW(world.answer(waiting[static_cast<std::size_t>(i)]), UsageError);
  }
  world.shards[1].away = false;
  for (int i = 0; i < 20; ++i) {
    world.beat(evaluator);
    world.beat(other);
    world.pass(200);
  }
  const auto first = world.answer(asked[2]), second = world.answer(waiting[2]);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(world.shards[0].state.status().cuts.size(), 2u) << "those that were answered";
  EXPECT_EQ(world.shards[1].state.status().cuts.size(), 2u);
}

TEST(CoreStores, ShardsAreRidOfCutsThatNobodyKnows) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const auto made = world.answer(world.send(calls::kMakeCut, client_request(evaluator)));
  ASSERT_TRUE(made);
  world.shards[0].give(cut_command(4711));  // late: it was dropped before it was made
  for (int i = 0; i < 25; ++i) {
    EXPECT_TRUE(world.beat(evaluator));
    world.pass(100);
  }
  const auto kept = world.shards[0].state.status().cuts;
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0], calls::decode_made_cut(*made).id);
}

TEST(CoreStores, ADescriptionThatTheStoreCannotKeepIsRefused) {
  World world;
  world.largest_value = 300;
  world.start();
  JobDescription description = test::small_description();
  description.vectors[0].name = std::string(400, 'a');
  try {
    world.call(calls::kDescribe, calls::encode(description));
    ADD_FAILURE() << "it was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("store"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(world.job().description);
  world.call(calls::kDescribe, calls::encode(test::small_description()));
}

TEST(CoreStores, AJoinThatComesAgainIsTheSameReplica) {
  JobPlan plan = small_plan();
  plan.staleness_bound = 0;
  plan.portion = plan.batch;
  World world(plan);
  world.ready();
  calls::ClientHello hello{"client", ClientRole::replica, 0, 0, 1, test::small_description(), 77};
  const auto join = [&] {
    return calls::decode_client_welcome(world.call(calls::kJoin, calls::encode(hello))).client;
  };
  const std::uint64_t one = join();
  EXPECT_EQ(join(), one);
  world.start();
  EXPECT_EQ(join(), one) << "that is stored, too";
  EXPECT_EQ(world.progress().replicas, 1u);
  hello.nonce = 78;
  const std::uint64_t two = join();
  EXPECT_NE(two, one);
  EXPECT_EQ(world.progress().replicas, 2u);
}

TEST(CoreStores, RoundsDoNotWaitForAReplicaThatIsNotWhole) {
  JobPlan plan = small_plan();
  plan.staleness_bound = 0;
  plan.portion = plan.batch;
  plan.replicas = 1;
  World world(plan);
  world.ready();
  const std::uint64_t one = world.join();
  const std::uint64_t half = world.join(ClientRole::replica, 0, 0, 2);
  for (int i = 0; i < 2; ++i) {
    const Portion first = world.lease(one).portion;
    const calls::LeaseAnswer second = world.lease(one, {first.number}, first.number);
    ASSERT_EQ(second.kind, LeaseKind::portion) << second.why;
    world.start();
  }
  EXPECT_TRUE(world.beat(half));
  EXPECT_NE(world.join(ClientRole::replica, half, 1, 2), 0u);
  EXPECT_EQ(world.lease(half).kind, LeaseKind::portion);
}

TEST(CoreStores, TheRecipeThatItIsStartedWithIsServedFromThenOn) {
  World world;
  world.ready();
  for (const char* recipe : {"[downpour]\nrestarts = 3\n", "", "[downpour]\nrestarts = 4\n"}) {
    const std::string before = world.job().plan.recipe;
    world.set_recipe(recipe);
    world.start();
    EXPECT_EQ(world.job().plan.recipe, *recipe == 0 ? before : recipe);
  }
}

TEST(CoreStores, WhatNobodyWaitsForIsForgotten) {
  World world;
  world.ready();
  world.storing = false;
  const auto join = calls::encode(calls::ClientHello{"x", ClientRole::observer, 0, 0, 1, {}});
  const CallId first = world.send(calls::kJoin, join), second = world.send(calls::kJoin, join);
  EXPECT_EQ(world.core->waiting(), 2u);
  world.core->abandoned({first});
  EXPECT_EQ(world.core->waiting(), 1u);
  world.storing = true;
  world.store_now();
  EXPECT_FALSE(world.answer(first));
  EXPECT_TRUE(world.answer(second));
}

}  // namespace
}  // namespace convoy::server::coordinator
