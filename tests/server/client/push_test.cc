// Pushes are applied once, whatever becomes of requests, answers and servers.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server::client {
namespace {

using namespace test;
using convoy::test::message_of;

// Vectors of which one is on both shards.
const JobDescription& description() {
  static const JobDescription all = description_of({5, 40000, 7});
  return all;
}

class PushTest : public testing::Test {
 protected:
  explicit PushTest(JobPlan plan = plan_of(2)) : cluster(plan), layout(plan, description()) {
    begin(cluster, description(),
          values_of(description(), [](auto v, auto i) { return static_cast<float>(v + i % 7); }));
    EXPECT_EQ(layout.shards_of({}).size(), 2u);
  }
  // One that has joined and fetched.
  std::unique_ptr<Core> replica(const std::string& name) { return replica(cluster.options(name)); }
  std::unique_ptr<Core> replica(ClientOptions options) {
    auto client = cluster.client(std::move(options));
    client->join(description(), {});
    Values there = values_of(description(), [](auto, auto) { return 0.0F; });
    client->fetch(write(there));
    return client;
  }
  Values gradient(float value = 0.25F) {
    return values_of(description(), [&](auto, auto) { return value; });
  }
  // Every element has moved by so much.
  void expect_moved(float by) {
    for (std::uint32_t v = 0; v < 3; ++v) {
      const auto now = cluster.values(layout, v);
      for (std::size_t i = 0; i < now.size(); ++i) {
        ASSERT_EQ(now[i], static_cast<float>(v + i % 7) - by) << v << " " << i;
      }
    }
  }

  Cluster cluster;
  Layout layout;
};

TEST_F(PushTest, ReachesEachShardOnceWhateverIsLost) {
  const auto client = replica("replica-1");
  const std::vector<Fault> faults = {Fault::lost_before,    Fault::lost_after,    Fault::twice,
                                     Fault::unknown_before, Fault::unknown_after, Fault::busy,
                                     Fault::failed};
  std::atomic<int> left = 0;
  std::atomic<Fault> now = Fault::none;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string& method) {
    return method == calls::kCommand && left-- > 0 ? now.load() : Fault::none;
  };
  float moved = 0;
  std::uint64_t id = 0;
  for (const Fault fault : faults) {
    now = fault;
    left = 3;  // one of the shards gets it twice in a row
    ++id;
    const Values g = gradient();
    const PushResult result =
        client->push(read(g), 4, {7, 4 * id}, client->fetches(), std::vector{id});
    EXPECT_EQ(result.kind, PushResult::Kind::applied) << result.why;
    moved += 0.25F;
    expect_moved(moved);
  }
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    const ShardStatus status = cluster.shard(shard).status();
    EXPECT_EQ(status.ledger, (Ledger{7, 28, 140}));
    ASSERT_EQ(status.clients.size(), 1u);
    EXPECT_EQ(status.clients[0].client.name, "replica-1");
    EXPECT_EQ(status.clients[0].client.sequence, 7u);
    EXPECT_EQ(status.clients[0].client.pushes, 7u);
    EXPECT_EQ(status.clients[0].client.samples, 28u);
    EXPECT_EQ(status.clients[0].client.progress, std::uint64_t{7} << 32 | 28);
  }
  const ClientTraffic traffic = client->traffic();
  EXPECT_EQ(traffic.pushes, 7u);
  EXPECT_GE(traffic.retries, 6u);
  EXPECT_GT(traffic.pushed_by_shard[0], 7u * 4 * 20000);
  EXPECT_EQ(traffic.pushed_bytes, traffic.pushed_by_shard[0] + traffic.pushed_by_shard[1]);
}

TEST_F(PushTest, FindsThePrimaryThatTookOver) {
  const auto client = replica("replica-1");
  const Values g = gradient();
  // Told by the server that was.
  cluster.move(0, 2);
  EXPECT_EQ(client->push(read(g), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  // By nobody, while the coordinator is away.
  cluster.set_coordinator_up(false);
  cluster.move(0, 1, false);
  EXPECT_EQ(client->push(read(g), 1, {1, 2}, 1, {}).kind, PushResult::Kind::applied);
  cluster.set_coordinator_up(true);
  // By the coordinator, since the one that was is gone.
  cluster.set_up(1, false);
  cluster.move(0, 2);
  EXPECT_EQ(client->push(read(g), 1, {1, 3}, 1, {}).kind, PushResult::Kind::applied);
  expect_moved(0.75F);
}

// A server that neither answers nor breaks its connection.
TEST_F(PushTest, DoesNotWaitForAServerThatWasReplaced) {
  const auto client = replica("replica-1");
  std::atomic<std::uint64_t> unanswered = 0;
  cluster.fault = [&](std::uint64_t server, std::uint32_t, const std::string& method) {
    if (server != 1 || method != calls::kCommand) return Fault::none;
    ++unanswered;
    return Fault::silence;
  };
  const Values g = gradient();
  // A call's own deadline is after 10 s. A machine may stand still for so long once, but not again
  // and again.
  bool in_time = false;
  std::uint64_t pushes = 0;
  while (!in_time && pushes < 5) {
    cluster.move(0, 1);
    const std::uint64_t before = unanswered;
    std::thread takes_over([&] {
      const auto until = Clock::now() + convoy::test::patience();
      while (unanswered == before && Clock::now() < until) std::this_thread::sleep_for(1ms);
      cluster.move(0, 2);
    });
    const auto began = Clock::now();
    EXPECT_EQ(client->push(read(g), 1, {1, ++pushes}, 1, {}).kind, PushResult::Kind::applied);
    in_time = Clock::now() - began < 9s;
    takes_over.join();
    EXPECT_GT(unanswered, before);
  }
  EXPECT_TRUE(in_time);
  expect_moved(0.25F * static_cast<float>(pushes));
}

TEST_F(PushTest, GoesOnAfterSecondsWithoutServers) {
  const auto client = replica("replica-1");
  cluster.set_up(1, false);
  cluster.set_up(2, false);
  std::thread back([&] {
    std::this_thread::sleep_for(1500ms);
    cluster.set_up(1, true);
    cluster.set_up(2, true);
  });
  const Values g = gradient();
  EXPECT_EQ(client->push(read(g), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  back.join();
  expect_moved(0.25F);
}

TEST_F(PushTest, GivesUpWhenItsPatienceIsOver) {
  ClientOptions options = cluster.options("replica-1");
  options.patience = 3s;
  const auto client = replica(options);
  cluster.set_up(2, false);
  const Values g = gradient();
  const std::string why = message_of<Failure>([&] { client->push(read(g), 1, {1, 1}, 1, {}); });
  EXPECT_NE(why.find("push: shard 1: "), std::string::npos) << why;
  // The next one is another one.
  cluster.set_up(2, true);
  std::uint64_t tries = 1;
  for (bool done = false; !done && tries < 50; ++tries) {
    done = message_of<Failure>([&] { client->push(read(g), 1, {1, 2}, 1, {}); }).empty();
  }
  EXPECT_EQ(cluster.shard(1).status().clients[0].client.sequence, tries);
  EXPECT_EQ(cluster.shard(1).status().clients[0].client.pushes, 1u);
}

// And the memory is the caller's again, though a server may never take it.
TEST_F(PushTest, SaysThatTheJobIsOver) {
  const auto client = replica("replica-1");
  cluster.end("all samples are done");
  cluster.set_up(1, false);
  cluster.set_up(2, false);
  const Values g = gradient();
  const std::string why = message_of<Failure>([&] { client->push(read(g), 1, {1, 1}, 1, {}); });
  EXPECT_NE(why.find("all samples are done"), std::string::npos) << why;
  EXPECT_EQ(client->ended(), "all samples are done");
}

TEST_F(PushTest, WhatIsNotANumberIsRefusedWithTheReplicasName) {
  const auto client = replica("replica-1");
  Values g = gradient();
  g[1][39999] = NAN;  // on one shard only
  const PushResult result = client->push(read(g), 1, {1, 1}, 1, {});
  EXPECT_EQ(result.kind, PushResult::Kind::refused);
  EXPECT_NE(result.why.find("(replica-1): slice of 'w1': a value is infinite or no number"),
            std::string::npos)
      << result.why;
  g[1][39999] = 0.25F;
  EXPECT_EQ(client->push(read(g), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
}

TEST_F(PushTest, OfAnotherShapeIsAMistake) {
  const auto client = replica("replica-1");
  const Values g = gradient();
  const auto mistake = [&](std::vector<ReadView> views, std::uint64_t fetched = 1,
                           std::pair<std::uint64_t, std::uint64_t> progress = {1, 1}) {
    return message_of<UsageError>([&] { client->push(views, 1, progress, fetched, {}); });
  };
  EXPECT_EQ(mistake({{0, std::span(g[0]).first(4)}}),
            "4 values for vector 'w0'; it has 5 elements");
  EXPECT_EQ(mistake({{0, g[0]}, {0, g[0]}}), "vector 'w0' is there twice; give it once");
  EXPECT_EQ(mistake({{3, g[0]}}), "there is no vector 3; the job has 3");
  EXPECT_NE(mistake({{0, g[0]}}, 2).find("after 2 fetches"), std::string::npos);
  EXPECT_NE(mistake({{0, g[0]}}, 0).find("after 0 fetches"), std::string::npos);
  EXPECT_NE(mistake({{0, g[0]}}, 1, {std::uint64_t{1} << 32, 0}).find("32 bits"),
            std::string::npos);
  const auto stranger = cluster.client("stranger");
  EXPECT_THROW(stranger->push(read(g), 1, {1, 1}, 0, {}), UsageError);
  expect_moved(0);
}

// Statistics move by the mean of what the members' own have moved by; of those alone who push them.
TEST(Push, OfStatisticsCountsThoseWhoPushThem) {
  JobDescription description = description_of({6, 6});
  description.vectors[1].rule.reset();
  const JobPlan plan = plan_of(1);
  Cluster cluster(plan);
  begin(cluster, description, {{0, 0, 0, 0, 0, 0}, {1, 2, 3, 4, 5, 6}});
  const auto one = cluster.client("one"), two = cluster.client("two");
  one->join(description, {});
  two->join(description, {});
  Values there = {std::vector<float>(6), std::vector<float>(6)};
  one->fetch(write(there));
  const Values moved = {std::vector<float>(6, 1), std::vector<float>(6, 3)};
  EXPECT_EQ(one->push(read(moved), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  EXPECT_EQ(cluster.values(Layout(plan, description), 1), (std::vector<float>{4, 5, 6, 7, 8, 9}));
  two->fetch(write(there));
  EXPECT_EQ(two->push(std::vector<ReadView>{{1, moved[1]}}, 1, {2, 1}, 1, {}).kind,
            PushResult::Kind::applied);
  EXPECT_EQ(cluster.values(Layout(plan, description), 1)[0], 5.5F);
  two->leave();
  EXPECT_EQ(one->push(std::vector<ReadView>{{1, moved[1]}}, 1, {1, 2}, 1, {}).kind,
            PushResult::Kind::applied);
  EXPECT_EQ(cluster.values(Layout(plan, description), 1)[0], 8.5F);
}

TEST_F(PushTest, IsRoundedAsTheWireSays) {
  for (const Wire wire : {Wire::bf16, Wire::f16}) {
    ClientOptions options = cluster.options("replica-1");
    options.push = wire;
    const auto client = replica(options);
    std::vector<float> before = cluster.values(layout, 1);
    Values g =
        values_of(description(), [](auto, auto i) { return 1.0F / static_cast<float>(i + 3); });
    EXPECT_EQ(client->push(read(g), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
    Bytes bytes(2 * g[1].size());
    encode(encoding_of(wire), g[1], bytes);
    std::vector<float> rounded(g[1].size());
    EncodedValues(encoding_of(wire), rounded.size(), bytes).decode(0, rounded);
    ASSERT_NE(rounded, g[1]);
    for (std::size_t i = 0; i < rounded.size(); ++i) before[i] -= rounded[i];
    EXPECT_EQ(cluster.values(layout, 1), before);
    EXPECT_LT(client->traffic().pushed_bytes, 3u * 40012);
    client->leave();
  }
}

class BoundedTest : public PushTest {
 protected:
  static JobPlan bounded() {
    JobPlan plan = plan_of(2);
    plan.staleness_bound = 1;
    return plan;
  }
  BoundedTest() : PushTest(bounded()) {}
};

TEST_F(BoundedTest, PushesOfOldFetchesAreNotApplied) {
  const auto one = replica("one"), two = replica("two");
  const Values g = gradient();
  EXPECT_EQ(two->push(read(g), 1, {1, 1}, 1, {}).staleness, 0u);
  EXPECT_EQ(two->push(read(g), 1, {1, 1}, 1, {}).staleness, 1u);
  const PushResult stale = one->push(read(g), 1, {1, 1}, 1, {});
  EXPECT_EQ(stale.kind, PushResult::Kind::fetch_again);
  EXPECT_EQ(stale.staleness, 2u);
  Values there = gradient();
  one->fetch(write(there));
  // What was computed with the first fetch is as old as it was.
  EXPECT_EQ(one->push(read(g), 1, {1, 1}, 1, {}).kind, PushResult::Kind::fetch_again);
  const PushResult fresh = one->push(read(g), 1, {1, 1}, 2, {});
  EXPECT_EQ(fresh.kind, PushResult::Kind::applied);
  EXPECT_EQ(fresh.staleness, 0u);
  expect_moved(0.75F);
  EXPECT_EQ(one->totals().staleness[0], 4u);  // of two shards
  EXPECT_EQ(one->totals().staleness[1], 2u);
}

// One that is taken for dead learns it, and begins anew as another one.
TEST_F(PushTest, OfALostClientIsNotApplied) {
  const auto client = replica("replica-1");
  const std::uint64_t before = client->id();
  EXPECT_FALSE(client->lost());
  cluster.deaf_to_beats = true;  // so that the shard is who says it
  cluster.forget(before);
  const Values g = gradient();
  const std::string why = message_of<Failure>([&] { client->push(read(g), 1, {1, 1}, 1, {}); });
  EXPECT_NE(why.find("(replica-1), which was taken for dead"), std::string::npos) << why;
  EXPECT_TRUE(client->lost());
  EXPECT_THROW(client->push(read(g), 1, {1, 1}, 1, {}), Failure);
  EXPECT_THROW(client->lease({}), Failure);
  expect_moved(0);
  cluster.deaf_to_beats = false;
  client->join(description(), {});
  EXPECT_FALSE(client->lost());
  EXPECT_NE(client->id(), before);
  EXPECT_EQ(client->push(read(g), 1, {1, 1}, client->fetches(), {}).kind,
            PushResult::Kind::applied);
  expect_moved(0.25F);
}

}  // namespace
}  // namespace convoy::server::client
