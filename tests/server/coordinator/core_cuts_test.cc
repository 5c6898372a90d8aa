#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "server/coordinator/core.h"
#include "tests/server/coordinator/progress.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using test::small_plan;
using test::so_far;
using test::World;
using LeaseKind = calls::LeaseAnswer::Kind;

CallId ask_cut(World& world, std::uint64_t client) {
  return world.send(calls::kMakeCut, calls::encode(calls::ClientRequest{client}));
}
std::optional<server::Cut> made(World& world, CallId call) {
  const auto message = world.answer(call);
  if (!message) return std::nullopt;
  return calls::decode_made_cut(*message);
}
void drop(World& world, std::uint64_t client, std::uint64_t cut) {
  world.call(calls::kDropCut, calls::encode(calls::DropCutRequest{client, cut}));
}
std::size_t cuts_on(World& world, int shard) {
  return world.shards[static_cast<std::size_t>(shard)].state.status().cuts.size();
}

TEST(Cuts, SayWhatIsInTheParameters) {
  World world;
  const auto early = calls::encode(calls::ClientRequest{world.join(ClientRole::evaluator)});
  EXPECT_THROW(world.call(calls::kMakeCut, early), UsageError) << "there are no values yet";
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join()), two = world.join_shards(world.join());
  const Portion first = world.lease(one).portion, second = world.lease(two).portion;
  for (auto& shard : world.shards) {
    shard.push(one, 1, so_far(first, 4), {});
    shard.push(two, 1, so_far(second, 4), {});
    shard.push(two, 2, so_far(second, 8), {});
  }
  const auto cut = made(world, ask_cut(world, evaluator));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->progress.consumed, (std::vector<Range>{{0, 4}, {8, 16}}));
  EXPECT_EQ(cut->progress.samples, 12u);
  EXPECT_EQ(cut->progress.replicas, 2u);
  EXPECT_EQ(cut->version, 3u);
  EXPECT_EQ(world.progress().samples, 0u) << "nothing is finished";
  for (auto& shard : world.shards) {
    EXPECT_EQ(shard.state.last_pushes(cut->id)[0], (LastPush{one, 1, so_far(first, 4)}));
  }
  EXPECT_THROW(drop(world, one, cut->id), UsageError) << "it is another's";
  drop(world, evaluator, cut->id);
  drop(world, evaluator, cut->id);
  EXPECT_EQ(cuts_on(world, 0) + cuts_on(world, 1), 0u);
}

TEST(Cuts, WaitForAPushThatOneShardHasNotYet) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  for (auto& shard : world.shards) shard.push(one, 1, so_far(first, 2), {});
  world.shards[0].push(one, 2, so_far(first, 4), {});
  const CallId call = ask_cut(world, evaluator);
  EXPECT_FALSE(made(world, call));
  EXPECT_FALSE(world.shards[1].push(one, 3, so_far(first, 6), {})) << "held back";
  world.shards[1].push(one, 2, so_far(first, 4), {});
  const auto cut = made(world, call);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->progress.samples, 4u);
  EXPECT_TRUE(world.beat(one)) << "others were not kept waiting";
}

// What comes to its end while a cut is made isn't in it.
TEST(Cuts, AreNotOfTheEndThatCameMeanwhile) {
  World world;
  world.ready(8);
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  const Portion all = world.lease(one).portion;
  EXPECT_EQ(all.end, 8u);
  for (auto& shard : world.shards) shard.push(one, 1, so_far(all, 4), {});
  world.shards[0].push(one, 2, so_far(all, 6), {});
  const CallId call = ask_cut(world, evaluator);
  EXPECT_FALSE(made(world, call));
  world.lease(one, {all.number}, all.number);
  EXPECT_TRUE(world.progress().all_done);
  world.shards[1].push(one, 2, so_far(all, 6), {});
  const auto cut = made(world, call);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->progress.samples, 6u);
  EXPECT_FALSE(cut->progress.all_done);
  const auto end = made(world, ask_cut(world, evaluator));
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->progress.all_done);
}

// However often it has pushed until now, a replica without samples pushes nothing more.
TEST(Cuts, AtTheEndWaitForNobody) {
  const auto is_made_at_once = [](bool finished) {
    World world;
    world.ready(8);
    const std::uint64_t evaluator = world.join(ClientRole::evaluator);
    const std::uint64_t one = world.join_shards(world.join());
    const Portion all = world.lease(one).portion;
    for (int i = 0; i < 12; ++i) {  // shards are asked how far it is
      world.beat(evaluator);
      world.beat(one);
      world.pass(100);
    }
    world.now += 100'000;
    for (std::uint64_t i = 1; i <= 8; ++i) {
      for (auto& shard : world.shards) shard.push(one, i, so_far(all, i), {});
    }
    if (finished) world.lease(one, {all.number}, all.number);
    return made(world, ask_cut(world, evaluator)).has_value();
  };
  EXPECT_FALSE(is_made_at_once(false)) << "its next push may be on its way";
  EXPECT_TRUE(is_made_at_once(true));
}

// In rounds one that has caught up has made pushes on some shards alone.
TEST(Cuts, DoNotWaitForThePushThatCatchesUp) {
  JobPlan plan = small_plan();
  plan.staleness_bound = 0;
  plan.replicas = 1;
  plan.portion = plan.batch;
  World world(plan);
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join()), late = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  for (auto& shard : world.shards) shard.push(one, 1, so_far(first, 4), {});
  world.shards[0].push(late, 1, 0, {});
  const CallId call = ask_cut(world, evaluator);
  const auto cut = made(world, call);
  ASSERT_TRUE(cut);
  EXPECT_TRUE(world.shards[1].push(late, calls::kCatchUp + 1, 0, {})) << "held back";
}

TEST(Cuts, OfTwoClientsOneAfterTheOther) {
  World world;
  world.ready();
  const std::uint64_t a = world.join(ClientRole::evaluator), b = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  world.shards[0].push(one, 1, so_far(first, 4), {});
  const CallId first_call = ask_cut(world, a), second_call = ask_cut(world, b);
  EXPECT_FALSE(made(world, first_call));
  EXPECT_FALSE(made(world, second_call));
  world.shards[1].push(one, 1, so_far(first, 4), {});
  const auto cut_a = made(world, first_call), cut_b = made(world, second_call);
  ASSERT_TRUE(cut_a && cut_b);
  EXPECT_NE(cut_a->id, cut_b->id);
  EXPECT_EQ(cuts_on(world, 0), 2u);
  // Nobody reads what a client that is gone has asked for.
  for (int i = 0; i < 13; ++i) {
    world.beat(b);
    world.beat(one);
    world.pass(100);
  }
  EXPECT_EQ(cuts_on(world, 0), 1u);
  world.call(calls::kLeave, calls::encode(calls::ClientRequest{b}));
  EXPECT_EQ(cuts_on(world, 0) + cuts_on(world, 1), 0u);
}

TEST(Cuts, AThirdOneDropsTheFirst) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 6; ++i) {
    const auto cut = made(world, ask_cut(world, evaluator));
    ASSERT_TRUE(cut);
    ids.push_back(cut->id);
    EXPECT_LE(cuts_on(world, 0), 2u);
  }
  EXPECT_EQ(world.shards[0].state.status().cuts, (std::vector<std::uint64_t>{ids[4], ids[5]}));
}

TEST(Cuts, ComeAboutWhenAPrimaryIsBackAgain) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  world.shards[1].away = true;
  const CallId call = ask_cut(world, evaluator);
  for (int i = 0; i < 20; ++i) {
    world.pass(100);
    EXPECT_TRUE(world.beat(evaluator));
  }
  EXPECT_FALSE(made(world, call));
  world.shards[1].away = false;
  world.pass(500);
  EXPECT_TRUE(made(world, call));
}

TEST(Cuts, AreGivenUpAfterAWhileAndNothingIsLeft) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  const Portion first = world.lease(one).portion;
  world.shards[0].push(one, 1, so_far(first, 4), {});  // and never the other shard
  const CallId call = ask_cut(world, evaluator);
  for (int i = 0; i < 700; ++i) {
    world.pass(100);
    world.beat(evaluator);
    world.beat(one);
  }
  try {
    world.answer(call);
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("no cut came about"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(cuts_on(world, 0) + cuts_on(world, 1), 0u);
}

TEST(Cuts, ARestartDropsTheOneThatWasBeingMade) {
  World world;
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  const std::uint64_t one = world.join_shards(world.join());
  const auto kept = made(world, ask_cut(world, evaluator));
  ASSERT_TRUE(kept);
  const Portion first = world.lease(one).portion;
  world.shards[0].push(one, 1, so_far(first, 4), {});
  ask_cut(world, evaluator);
  EXPECT_EQ(cuts_on(world, 0), 2u);
  EXPECT_EQ(cuts_on(world, 1), 1u);
  world.start();
  for (int i = 0; i < 80; ++i) {
    world.beat(evaluator);
    world.beat(one);
    world.pass(100);
  }
  EXPECT_EQ(cuts_on(world, 0), 1u) << "the one that was made is its client's";
  EXPECT_EQ(cuts_on(world, 1), 1u);
  drop(world, evaluator, kept->id);
  EXPECT_EQ(cuts_on(world, 0), 0u);
}

TEST(Cuts, AreMadeWhileReplicasPushAllTheTime) {
  World world;
  world.ready(100'000);
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  struct Replica {
    std::uint64_t id = 0, sequence = 0, at = 0;
    int shard = 0;  // where its next push goes
    Portion portion;
    std::uint64_t last = 0;
  };
  std::vector<Replica> replicas(8);
  for (Replica& each : replicas) each.id = world.join_shards(world.join());
  std::mt19937_64 random(5);
  bool inside = false;  // of a message's way
  const auto push = [&](Replica& each) {
    const std::uint64_t size = each.portion.end - each.portion.begin;
    if (each.shard == 0 && each.at == size) {
      if (inside) return;
      std::vector<std::uint64_t> finished;
      if (each.last != 0) finished.push_back(each.last);
      const auto lease = world.lease(each.id, finished, each.last);
      ASSERT_EQ(lease.kind, LeaseKind::portion);
      each.portion = lease.portion;
      each.last = lease.portion.number;
      each.at = 0;
    }
    const std::uint64_t to = each.shard == 0 ? each.at + 1 : each.at;
    const std::uint64_t sequence = each.shard == 0 ? each.sequence + 1 : each.sequence;
    auto& shard = world.shards[static_cast<std::size_t>(each.shard)];
    if (!shard.push(each.id, sequence, so_far(each.portion, to), {})) return;  // it is held back
    each.at = to;
    each.sequence = sequence;
    each.shard = 1 - each.shard;
  };
  // Each message takes a while, in which some push.
  world.lost = [&] {
    if (std::exchange(inside, true)) return false;
    for (int i = 0; i < 3; ++i) push(replicas[random() % replicas.size()]);
    inside = false;
    return false;
  };
  const auto live = [&](int ms) {
    for (int i = 0; i < ms / 10; ++i) {
      world.now += 10'000;
      for (int k = 0; k < 12; ++k) push(replicas[random() % replicas.size()]);
      if (i % 5 == 0) {
        for (const Replica& each : replicas) world.beat(each.id);
        world.beat(evaluator);
        world.tick();
      }
    }
  };
  live(3000);
  for (int i = 0; i < 5; ++i) {
    const CallId call = ask_cut(world, evaluator);
    std::optional<server::Cut> cut;
    for (int k = 0; k < 200 && !cut; ++k) {
      live(50);
      cut = made(world, call);
    }
    ASSERT_TRUE(cut) << "in 10 s of pushes";
    EXPECT_EQ(world.shards[0].state.last_pushes(cut->id),
              world.shards[1].state.last_pushes(cut->id));
    // What is consumed is what is in the values.
    std::uint64_t samples = 0;
    for (const LastPush& push : world.shards[0].state.last_pushes(cut->id))
      samples += push.sequence;
    EXPECT_EQ(cut->progress.samples, samples) << "each push is of one";
    drop(world, evaluator, cut->id);
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
