// What is not as it should be: clocks, clients that lie, garbage, too many.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "server/coordinator/core.h"
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

TEST(CoreFaults, ClocksMayJump) {
  World world;
  world.ready();
  const std::uint64_t one = world.join();
  world.now += 3'600'000'000;  // an hour
  world.tick();
  world.pass(900);
  EXPECT_TRUE(world.beat(one)) << "nobody could be heard meanwhile";
  world.now -= 7'200'000'000 > static_cast<std::int64_t>(world.now) ? world.now : 3'600'000'000;
  world.tick();
  world.pass(900);
  EXPECT_TRUE(world.beat(one));
  world.pass(1300);
  EXPECT_FALSE(world.beat(one)) << "time goes on";
}

TEST(CoreFaults, LiesChangeNothing) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join()), two = world.join_shards(world.join());
  const Portion first = world.lease(one).portion, second = world.lease(two).portion;
  EXPECT_EQ(world.lease(two, {first.number, 0, 77, UINT64_MAX}, UINT64_MAX).portion.begin, 16u);
  EXPECT_EQ(world.progress().samples, 0u) << "another's portion is not its to finish";
  // Progress that it can't have made.
  world.shards[0].push(two, 1, so_far(second, UINT32_MAX), {});
  world.shards[1].push(two, 1, UINT64_MAX, {});
  world.call(calls::kLeave, calls::encode(calls::ClientRequest{two}));
  world.pass(500);
  EXPECT_LE(world.progress().samples, 8u);
  // A report of no numbers.
  ReplicaReport report;
  report.samples = UINT64_MAX;
  world.call(calls::kBeat, calls::encode(calls::Beat{one, 1, report}));
  report = {1, 1, std::nan(""), 1, INFINITY, 0, 0, 0, 0};
  world.call(calls::kBeat, calls::encode(calls::Beat{one, 2, report}));
  EXPECT_EQ(world.progress().reported.samples, 1u);
  EXPECT_EQ(world.progress().reported.loss_sum, 0);
  EXPECT_EQ(world.progress().reported.compute_s, 0);
  // Ids of nobody.
  for (const std::uint64_t id : {std::uint64_t{0}, std::uint64_t{424242}, UINT64_MAX}) {
    EXPECT_FALSE(world.beat(id));
    world.call(calls::kLeave, calls::encode(calls::ClientRequest{id}));
    EXPECT_THROW(world.call(calls::kMakeCut, calls::encode(calls::ClientRequest{id})), UsageError);
    EXPECT_THROW(world.call(calls::kEnd, calls::encode(calls::EndRequest{id, ""})), UsageError);
    world.call(calls::kDropCut, calls::encode(calls::DropCutRequest{id, id}));
  }
  EXPECT_THROW(world.call(calls::kServer, calls::encode(calls::ServerHello{3, 1, "x:1"})),
               UsageError);
  EXPECT_THROW(world.call(calls::kServer, calls::encode(calls::ServerHello{1, 1, ""})), UsageError);
  EXPECT_THROW(world.call("no method", calls::encode_nothing()), UsageError);
  JobDescription other = small_description();
  other.vectors[0].elements = 5;
  try {
    world.call(calls::kJoin,
               calls::encode(calls::ClientHello{"x", ClientRole::replica, 0, 0, 1, other}));
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("the size of 'a' is 4 here, 5 there"),
              std::string::npos)
        << error.what();
  }
}

TEST(CoreFaults, GarbageIsRefused) {
  World world;
  world.ready();
  std::mt19937_64 random(3);
  const std::string_view methods[] = {
      calls::kJob,     calls::kDescribe, calls::kInitialized, calls::kServer, calls::kAuthority,
      calls::kJoin,    calls::kBeat,     calls::kLease,       calls::kLeave,  calls::kMakeCut,
      calls::kDropCut, calls::kEnd,      calls::kProgress,    calls::kStatus, ""};
  for (int i = 0; i < 3000; ++i) {
    Bytes bytes(random() % 60);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random() % (i % 2 == 0 ? 256 : 3));
    if (bytes.size() >= 2 && i % 4 != 0) bytes[0] = std::byte{1}, bytes[1] = std::byte{0};
    try {
      world.call(methods[random() % std::size(methods)], Message::of(bytes));
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()), "");
    }
  }
  EXPECT_TRUE(world.job().ended.empty());
  EXPECT_EQ(world.job().description, small_description());
  EXPECT_EQ(world.progress().samples, 0u);
}

TEST(CoreFaults, TheAuthorityHearsServersOfItsShardsAlone) {
  JobPlan plan = small_plan();
  plan.backups = true;
  plan.servers = 3;
  World world(plan);
  using namespace replication;
  const auto report = [](std::uint32_t shard, std::uint64_t node) {
    return replication::Message{shard, {node, 1}, {}, Report{}};
  };
  const auto ask = [&](const std::vector<replication::Message>& messages) {
    return calls::decode_replication(world.call(calls::kAuthority, calls::encode(messages)));
  };
  const auto answers = ask({report(0, 2), report(1, 2)});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Newest>(answers[0].body));
  EXPECT_EQ(answers[0].to, (Member{2, 1}));
  EXPECT_TRUE(ask({}).empty());
  EXPECT_THROW(ask({report(0, 3)}), UsageError) << "servers 1 and 2 have shard 0";
  EXPECT_THROW(ask({report(2, 2)}), UsageError) << "there is no shard 2";
  EXPECT_THROW(ask({report(0, 1), report(0, 2)}), UsageError) << "one server at a time";
  EXPECT_THROW(ask({report(0, 4000)}), UsageError);
}

// One that only an operator can help is no secret.
TEST(CoreFaults, TellsOfAShardThatNobodyMayServe) {
  using namespace replication;
  for (const bool backup : {false, true}) {
    JobPlan plan = small_plan();
    plan.backups = backup;
    World world(plan);
    if (backup) {
      const Configuration pair{0, 1, {1, 1}, {2, 1}};
      world.store[ConfigurationKeeper::key_of(0)] = {2, ConfigurationKeeper::encode(pair)};
      world.start();
    }
    world.ready();
    Stamp echo;
    // Server 1, in its second life.
    const auto beats = [&](int count, bool whole) {
      for (int i = 0; i < count; ++i) {
        Report report;
        report.echo = echo;
        report.whole = whole;
        report.position = {1, 5};
        const auto answers = calls::decode_replication(
            world.call(calls::kAuthority,
                       calls::encode(std::vector{replication::Message{0, {1, 2}, {}, report}})));
        if (!answers.empty()) echo = std::get<Newest>(answers[0].body).stamp;
        world.pass(100);
      }
    };
    const auto told = [&] {
      return std::count_if(world.lines.begin(), world.lines.end(), [](const std::string& line) {
        return line.find("shard 0 has no primary") != line.npos;
      });
    };
    beats(40, false);
    EXPECT_EQ(told(), 0) << "servers may still be starting";
    beats(100, false);
    ASSERT_EQ(told(), 1);
    const std::string line = *std::find_if(
        world.lines.begin(), world.lines.end(),
        [](const std::string& each) { return each.find("shard 0 has no primary") != each.npos; });
    EXPECT_NE(line.find(backup ? "server 2, which may have it, is away" : "nobody else has it"),
              line.npos)
        << line;
    EXPECT_NE(line.find("--accept-loss 0"), line.npos) << line;
  }
}

TEST(CoreFaults, ShardsAreRidOfClientsThatNobodyKnows) {
  World world;
  world.ready();
  const std::uint64_t one = world.join_shards(world.join());
  // It was taken for dead, and comes to a shard only then.
  world.shards[0].give(join_command(12345, "late"));
  world.shards[1].give(join_command(54321, "late"));
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(world.beat(one));
    world.pass(100);
  }
  for (auto& shard : world.shards) {
    const auto clients = shard.state.status().clients;
    ASSERT_EQ(clients.size(), 1u);
    EXPECT_EQ(clients[0].id, one);
  }
}

TEST(CoreFaults, TakesManyClients) {
  JobPlan plan = small_plan();
  plan.client_lease_ms = 1000'000;
  World world(plan);
  world.ready(1 << 20);
  const auto hello = calls::encode(
      calls::ClientHello{"x", ClientRole::replica, 0, 0, 1, small_description(1 << 20)});
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 65536; ++i) {
    ids.insert(calls::decode_client_welcome(world.call(calls::kJoin, hello)).client);
    world.answers.clear();
    world.lines.clear();
  }
  EXPECT_EQ(ids.size(), 65536u);
  EXPECT_THROW(world.call(calls::kJoin, hello), UsageError) << "one too many";
  for (int i = 0; i < 20; ++i) world.tick();
  EXPECT_EQ(world.lease(*ids.rbegin()).kind, LeaseKind::portion);
  EXPECT_EQ(world.progress().replicas, 65536u);
  EXPECT_GT(metrics_text(world.core->facts()).size(), 1'000'000u);
  world.start();
  EXPECT_EQ(world.progress().replicas, 65536u);
}

}  // namespace
}  // namespace convoy::server::coordinator
