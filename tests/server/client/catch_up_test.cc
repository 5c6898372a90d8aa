// Replicas that come when shards are at different rounds.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "server/replication/messages.h"
#include "tests/base/scratch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server::client {
namespace {

using namespace test;
using convoy::test::message_of;

// Of one vector on two shards.
class CatchUp : public testing::Test {
 protected:
  CatchUp() { begin(cluster, description, first); }
  std::unique_ptr<Core> joined(const std::string& name) {
    auto client = cluster.client(name);
    client->join(description, {});
    return client;
  }
  void push(Core& client) const {
    Values there = first;
    client.fetch(write(there));
    EXPECT_EQ(client.push(read(first), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  }
  // The second shard goes on alone, with pushes of a client that is gone then.
  void go_ahead(std::uint64_t rounds) {
    const auto gone = joined("gone");
    ShardState& second = cluster.shard(1);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      second.apply(second.applied() + 1,
                   push_command({gone->id(), calls::kCatchUp + round, 1, 0, {}, {}}));
    }
    ASSERT_EQ(second.status().round, rounds);
    cluster.forget(gone->id());
  }

  const JobDescription description = description_of({40000});
  const Values first = {std::vector<float>(40000, 1)};
  Cluster cluster{rounds(2)};
};

// Shards learn of a new member one after the other, perhaps with rounds of the others in between;
// when it has joined, all of them are at the same round.
TEST_F(CatchUp, BringsWhoComesLaterToTheOthersRound) {
  const auto one = joined("one"), two = cluster.client("two");
  std::atomic<bool> holds = true;
  cluster.fault = [&](std::uint64_t, std::uint32_t shard, const std::string& method) {
    // The second shard doesn't hear of it yet.
    return holds && shard == 1 && method == calls::kCommand ? Fault::busy : Fault::none;
  };
  std::thread joins([&] {
    two->join(description, {});
    two->catch_up();
  });
  while (cluster.shard(0).status().clients.size() < 2) std::this_thread::sleep_for(1ms);
  // A round on the second shard, as if it had been under way.
  ShardState& second = cluster.shard(1);
  const std::vector<float> half(static_cast<std::size_t>(second.definition()->slices[0].size), 0);
  std::thread pushes([&] { push(*one); });
  while (cluster.shard(0).status().collected == 0) std::this_thread::sleep_for(1ms);
  second.apply(
      second.applied() + 1,
      push_command(
          {one->id(),
           calls::kCatchUp + 1,
           1,
           0,
           {},
           {{0, 0, EncodedValues(Encoding::f32, half.size(), std::as_bytes(std::span(half)))}}}));
  EXPECT_EQ(second.status().round, 1u);
  EXPECT_EQ(cluster.shard(0).status().round, 0u);
  holds = false;
  joins.join();
  pushes.join();
  EXPECT_EQ(cluster.shard(0).status().round, 1u);
  EXPECT_EQ(cluster.shard(1).status().round, 1u);
  // Each says which round it wants samples for.
  cluster.on_lease = [](const calls::LeaseRequest&) { return calls::LeaseAnswer{}; };
  for (Core* client : {one.get(), two.get()}) {
    client->lease({});
    EXPECT_EQ(cluster.leases().back().round, 1u);
  }
}

// A server that takes a shard over, or reads its log, says nothing of its rounds that counts.
TEST_F(CatchUp, GoesByWhatPrimariesSay) {
  const auto one = joined("one");
  one->catch_up();
  push(*one);
  std::atomic<int> asked = 0;
  cluster.on_report = [&](std::uint32_t shard, calls::ShardReport& report) {
    if (shard != 1 || asked++ >= 3) return;  // then it serves
    report.role = static_cast<std::uint8_t>(replication::Role::backup);
    report.round = 0;
  };
  const auto two = joined("two");
  two->catch_up();
  EXPECT_GT(asked, 3);
  for (std::uint32_t shard : {0, 1}) {
    const ShardStatus status = cluster.shard(shard).status();
    EXPECT_EQ(status.round, 1u);
    EXPECT_EQ(status.collected, 0u) << "it has caught up with a round that nobody has begun";
  }
}

// Nor does a backup, which is asked when the primary did not answer.
TEST_F(CatchUp, LeavesTheBackupForThePrimary) {
  const auto one = joined("one");
  std::atomic<int> asked = 0;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string& method) {
    return method == calls::kReport && asked++ == 0 ? Fault::lost_before : Fault::none;
  };
  one->catch_up();
  EXPECT_GE(asked, 3);
}

// A power cut may take more rounds from one shard than from another.
TEST_F(CatchUp, MakesManyRounds) {
  go_ahead(5);
  const auto one = joined("one"), two = joined("two");
  std::thread other([&] { one->catch_up(); });
  two->catch_up();
  other.join();
  EXPECT_EQ(cluster.shard(0).status().round, 5u);
  EXPECT_EQ(cluster.shard(1).status().round, 5u);
  // And are in step.
  std::thread pushes([&] { push(*one); });
  push(*two);
  pushes.join();
  EXPECT_EQ(cluster.shard(0).status().round, 6u);
}

// As many as it has numbers for; more of them are no power cut's.
TEST_F(CatchUp, MakesSoManyRoundsAndNoMore) {
  go_ahead(calls::kCatchUp);
  const auto one = joined("one");
  std::thread catches_up([&] { EXPECT_NO_THROW(one->catch_up()); });
  while (cluster.shard(0).status().round < 3) std::this_thread::sleep_for(1ms);
  cluster.end("enough");
  catches_up.join();
}

TEST_F(CatchUp, RefusesMoreRounds) {
  go_ahead(calls::kCatchUp + 1);
  const auto one = joined("one");
  EXPECT_EQ(message_of<Failure>([&] { one->catch_up(); }),
            "shard 0 is at round 0, others are at 4097");
}

// Who is taken for dead meanwhile knows it: it may join again.
TEST_F(CatchUp, EndsForTheDead) {
  const auto two = joined("two");
  cluster.on_report = [](std::uint32_t, calls::ShardReport& report) {
    report.role = static_cast<std::uint8_t>(replication::Role::backup);
  };
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    cluster.forget(two->id());
  });
  EXPECT_THROW(two->catch_up(), Failure);
  later.join();
  EXPECT_TRUE(two->lost());
}

// So it is for a replica of several processes, whose shards learn of it when each of these joins.
TEST(CatchUpOfProcesses, BringsAllToTheOthersRound) {
  const JobDescription description = description_of({30000, 40000, 30000});
  const Values first = values_of(description, [](auto, auto) { return 1.0F; });
  const JobPlan plan = rounds(2);
  Cluster cluster(plan);
  begin(cluster, description, first);
  const auto one = cluster.client("one");
  one->join(description, {});
  const auto process = [&](std::uint32_t member, std::uint64_t group) {
    ClientOptions options = cluster.options("process " + std::to_string(member));
    options.member = member;
    options.members = 2;
    options.group = group;
    return cluster.client(options);
  };
  // The first shard has all of vector 0 and a part of 1; the second the rest.
  const std::vector<std::uint32_t> to_first{0}, to_both{1, 2};
  ASSERT_EQ(Layout(plan, description).shards_of(to_first), std::vector<std::uint32_t>{0});
  ASSERT_EQ(Layout(plan, description).shards_of(to_both), (std::vector<std::uint32_t>{0, 1}));
  const auto process_0 = process(0, 0);
  process_0->join(description, to_first);
  std::thread pushes([&] {
    Values there = first;
    one->fetch(write(there));
    EXPECT_EQ(one->push(read(first), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  });
  while (cluster.shard(1).status().round == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(cluster.shard(0).status().round, 0u);  // waits for who is not whole yet
  const auto process_1 = process(1, process_0->id());
  process_1->join(description, to_both);
  std::thread catches_up([&] { process_0->catch_up(); });
  process_1->catch_up();
  catches_up.join();
  pushes.join();
  EXPECT_EQ(cluster.shard(0).status().round, 1u);
  EXPECT_EQ(cluster.shard(1).status().round, 1u);
  // From here on all are in step, with pushes of the same number on both shards.
  std::vector<std::thread> replicas;
  const auto goes_on = [&](Core& client, const std::vector<std::uint32_t>& vectors) {
    replicas.emplace_back([&client, &first, vectors] {
      Values there = first;
      std::vector<WriteView> to;
      std::vector<ReadView> from;
      for (const std::uint32_t v : vectors) {
        to.push_back({v, there[v]});
        from.push_back({v, first[v]});
      }
      for (std::uint64_t step = 2; step <= 5; ++step) {
        client.fetch(to);
        const PushResult result = client.push(from, 1, {step, 1}, client.fetches(), {});
        ASSERT_EQ(result.kind, PushResult::Kind::applied) << result.why;
      }
    });
  };
  goes_on(*one, {0, 1, 2});
  goes_on(*process_0, to_first);
  goes_on(*process_1, to_both);
  for (std::thread& replica : replicas) replica.join();
  for (std::uint32_t shard : {0, 1}) {
    const auto status = cluster.shard(shard).status();
    EXPECT_EQ(status.round, 5u);
    for (const auto& client : status.clients) {
      EXPECT_EQ(client.client.sequence, calls::kCatchUp + (client.id == one->id() ? 5 : 4));
    }
  }
}

}  // namespace
}  // namespace convoy::server::client
