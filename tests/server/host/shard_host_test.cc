// Nodes of a shard that are killed, filled, cut off and damaged.
#include "server/host/shard_host.h"

#include "tests/server/host/cluster.h"

namespace convoy::server::host::test {
namespace {

using calls::Outcome;

TEST(ShardHost, AppliesCommandsAndAnswers) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(4);
  EXPECT_EQ(cluster.push(1).status, Status::done);
  EXPECT_EQ(cluster.push(1).status, Status::done);  // known again
  EXPECT_EQ(cluster.fetched(1, 4), (std::vector<float>{1, 1, 1, 1}));
  cluster.expect_pushed(1, 1);
  const auto report = cluster.host(1).report();
  EXPECT_EQ(report.role, static_cast<std::uint8_t>(replication::Role::primary));
  EXPECT_EQ(report.primary, 1u);
  EXPECT_EQ(report.memory_bytes, 16u);
  EXPECT_GT(report.log_bytes, 0u);
  EXPECT_GT(report.pushed_bytes, 32u);
  EXPECT_EQ(report.fetched_bytes, 16u);
  // What evaluators have of cuts is none of replicas' traffic.
  ASSERT_TRUE(cluster.ask(1, cut_command(7)));
  calls::FetchRequest fetch;
  fetch.ranges = {{0, 0, 0, 4}};
  fetch.cut = 7;
  EXPECT_EQ(cluster.host(1).fetch(fetch).outcome, Outcome::done);
  EXPECT_EQ(cluster.host(1).report().fetched_bytes, 16u);
}

TEST(ShardHost, ANodeThatIsNotPrimarySaysWhoIs) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(4);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  ASSERT_TRUE(cluster.wait([&] { return cluster.host(2).report().primary == 1; }));
  const auto answer = cluster.ask(2, join_command(2, ""));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcome, Outcome::not_primary);
  EXPECT_EQ(answer->primary, 1u);
  calls::FetchRequest fetch;
  fetch.ranges = {{0, 0, 0, 4}};
  EXPECT_EQ(cluster.host(2).fetch(fetch).outcome, Outcome::not_primary);
  EXPECT_EQ(cluster.host(2).fetch(fetch).primary, 1u);
}

TEST(ShardHost, NothingAcknowledgedIsLostWhenThePrimaryIsKilled) {
  for (const bool files : {true, false}) {
    Cluster cluster({.files = files});
    cluster.start(1);
    cluster.start(2);
    cluster.define(4);
    ASSERT_TRUE(cluster.wait([&] { return bool(cluster.authority().configuration().backup); }));
    const std::uint64_t first = cluster.authority().configuration().primary.node;
    for (std::uint64_t i = 1; i <= 50; ++i) EXPECT_EQ(cluster.push(i).status, Status::done);
    cluster.kill(first);
    for (std::uint64_t i = 51; i <= 60; ++i) EXPECT_EQ(cluster.push(i).status, Status::done);
    const std::uint64_t second = 3 - first;
    cluster.expect_pushed(second, 60);
    EXPECT_EQ(cluster.fetched(second, 4), std::vector<float>(4, 60));
    cluster.start(first);
    ASSERT_TRUE(cluster.wait_served(second, first));
    EXPECT_EQ(cluster.push(61).status, Status::done);
    cluster.kill(second);
    EXPECT_EQ(cluster.push(62).status, Status::done);
    cluster.expect_pushed(first, 62);
  }
}

// Who comes late in rounds goes by what a primary says.
TEST(ShardHost, IsPrimaryWhenItHasReadItsLog) {
  constexpr std::uint64_t kElements = 200'000, kPushes = 40;
  Cluster cluster;
  cluster.start(1);
  cluster.define(kElements);
  for (std::uint64_t i = 1; i <= kPushes; ++i)
    EXPECT_EQ(cluster.push(i, kElements).status, Status::done);
  const std::uint64_t applied = cluster.host(1).report().applied;
  cluster.kill(1);
  cluster.start(1);
  calls::ShardReport report;
  const auto is_primary = [&] {
    report = cluster.host(1).report();
    return report.role == static_cast<std::uint8_t>(replication::Role::primary);
  };
  ASSERT_TRUE(cluster.wait(is_primary));
  EXPECT_GE(report.applied, applied);
}

bool has_file(Cluster& cluster, std::uint64_t node, const std::string& prefix) {
  const auto names = cluster.disk(node).list();
  return std::any_of(names.begin(), names.end(),
                     [&](const auto& name) { return name.starts_with(prefix); });
}

TEST(ShardHost, WhoComesBackGetsTheTail) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(100);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  EXPECT_EQ(cluster.push(1, 100).status, Status::done);
  cluster.kill(2);
  for (std::uint64_t i = 2; i <= 30; ++i) EXPECT_EQ(cluster.push(i, 100).status, Status::done);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  EXPECT_FALSE(has_file(cluster, 2, "snapshot-"));
  cluster.kill(1);
  EXPECT_EQ(cluster.push(31, 100).status, Status::done);
  cluster.expect_pushed(2, 31);
}

TEST(ShardHost, WhoComesBackLateGetsASnapshot) {
  Cluster cluster({.snapshot_bytes = 2000, .segment_bytes = 1000});
  cluster.start(1);
  cluster.define(100);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  cluster.kill(2);
  // Until there are two snapshots, and the log begins behind the first of them.
  std::uint64_t pushes = 0;
  ASSERT_TRUE(cluster.wait([&] {
    EXPECT_EQ(cluster.push(++pushes, 100).status, Status::done);
    return !has_file(cluster, 1, "log-00000000000000000001");
  }));
  const std::uint64_t files = cluster.disk(1).used();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cluster.push(++pushes, 100).status, Status::done);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  EXPECT_TRUE(has_file(cluster, 2, "snapshot-"));
  // The disk is bounded: 100 pushes are 50 KB, which go when others have come.
  EXPECT_TRUE(cluster.wait([&] {
    EXPECT_EQ(cluster.push(++pushes, 100).status, Status::done);
    return cluster.disk(1).used() < files + 20'000;
  }));
  cluster.kill(1);
  EXPECT_EQ(cluster.push(++pushes, 100).status, Status::done);
  cluster.expect_pushed(2, pushes);
  cluster.start(1);
  ASSERT_TRUE(cluster.wait_served(2, 1));
}

TEST(ShardHost, ANodeWithoutFilesGetsASnapshotFromMemory) {
  Cluster cluster({.files = false, .recent_bytes = 2000});
  cluster.start(1);
  cluster.define(100);
  for (std::uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(cluster.push(i, 100).status, Status::done);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  cluster.kill(1);
  EXPECT_EQ(cluster.push(21, 100).status, Status::done);
  cluster.expect_pushed(2, 21);
}

TEST(ShardHost, WhatIsOnTheDiskOutlivesAll) {
  for (const bool in_order : {false, true}) {
    Cluster cluster({.snapshot_bytes = 1000});
    cluster.start(1);
    cluster.start(2);
    cluster.define(20);
    ASSERT_TRUE(cluster.wait([&] { return bool(cluster.authority().configuration().backup); }));
    for (std::uint64_t i = 1; i <= 30; ++i) EXPECT_EQ(cluster.push(i, 20).status, Status::done);
    for (const std::uint64_t node : {1, 2}) in_order ? cluster.close(node) : cluster.kill(node);
    cluster.start(1);
    cluster.start(2);
    EXPECT_EQ(cluster.push(31, 20).status, Status::done);
    const std::uint64_t primary = cluster.authority().configuration().primary.node;
    cluster.expect_pushed(primary, 31);
  }
}

TEST(ShardHost, SyncedPushesOutliveAPowerCutOfAll) {
  Cluster cluster({.synced = true});
  cluster.start(1);
  cluster.start(2);
  cluster.define(4);
  ASSERT_TRUE(cluster.wait([&] { return bool(cluster.authority().configuration().backup); }));
  for (std::uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(cluster.push(i).status, Status::done);
  cluster.cut_power();
  cluster.start(1);
  cluster.start(2);
  EXPECT_EQ(cluster.push(21).status, Status::done);
  cluster.expect_pushed(cluster.authority().configuration().primary.node, 21);
}

TEST(ShardHost, AFullDiskLeavesTheShardToTheOtherNode) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(1000);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  EXPECT_EQ(cluster.push(1, 1000).status, Status::done);
  cluster.disk(1).set_capacity(cluster.disk(1).used() + 100);
  EXPECT_EQ(cluster.push(2, 1000).status, Status::done);
  ASSERT_TRUE(cluster.wait_served(2, 0));
  EXPECT_EQ(cluster.push(3, 1000).status, Status::done);
  cluster.expect_pushed(2, 3);
  cluster.disk(1).set_capacity(std::uint64_t{1} << 30);
  ASSERT_TRUE(cluster.wait_served(2, 1));
  cluster.kill(2);
  EXPECT_EQ(cluster.push(4, 1000).status, Status::done);
  cluster.expect_pushed(1, 4);
  EXPECT_EQ(cluster.fatal(), "");
}

TEST(ShardHost, AFullDiskOfANodeAloneIsWaitedFor) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(1000);
  cluster.disk(1).set_capacity(cluster.disk(1).used() + 100);
  std::optional<calls::Answered> answer;
  ASSERT_TRUE(cluster.wait([&] {
    answer = cluster.ask(1, server::test::push(1, 1, 0, std::vector<float>(1000, -1), 1, 0, {1}));
    return answer && answer->outcome == Outcome::busy;
  }));
  EXPECT_EQ(answer->reason, "no room for the log");
  EXPECT_EQ(cluster.fetched(1, 1000), std::vector<float>(1000));
  cluster.disk(1).set_capacity(std::uint64_t{1} << 30);
  EXPECT_EQ(cluster.push(1, 1000).status, Status::done);
  cluster.expect_pushed(1, 1);
}

TEST(ShardHost, ASyncThatFailsIsFatal) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(4);
  cluster.disk(1).fail_syncs();
  cluster.push(1);
  EXPECT_TRUE(cluster.wait([&] { return !cluster.fatal().empty(); }));
  EXPECT_TRUE(cluster.fatal().starts_with("shard 0: ")) << cluster.fatal();
}

TEST(ShardHost, ADamagedLogIsSetAsideAndThePeersTaken) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(100);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(cluster.push(i, 100).status, Status::done);
  cluster.close(2);
  const std::string segment = "log-00000000000000000001";
  cluster.disk(2).flip(segment, cluster.disk(2).get(segment).size() / 2, 1);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  cluster.kill(1);
  EXPECT_EQ(cluster.push(11, 100).status, Status::done);
  cluster.expect_pushed(2, 11);
  EXPECT_TRUE(cluster.wait([&] {  // it is whole again
    const auto names = cluster.disk(2).list();
    return std::find(names.begin(), names.end(), "damaged-" + segment) == names.end();
  }));
}

// One that is damaged and alone must not serve what is left of it.
TEST(ShardHost, ADamagedNodeWaitsForTheOtherOne) {
  Cluster cluster;
  cluster.start(1);
  cluster.define(100);
  cluster.start(2);
  ASSERT_TRUE(cluster.wait_served(1, 2));
  for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(cluster.push(i, 100).status, Status::done);
  cluster.close(1);
  cluster.close(2);
  const std::string segment = "log-00000000000000000001";
  cluster.disk(2).flip(segment, cluster.disk(2).get(segment).size() / 2, 1);
  cluster.start(2);
  const auto answer = cluster.ask(2, join_command(2, ""), 3s);
  EXPECT_TRUE(!answer || answer->outcome == Outcome::not_primary);
  EXPECT_NE(cluster.host(2).role(), replication::Role::primary);
  EXPECT_TRUE(cluster.wait([&] { return has_file(cluster, 2, "damaged-" + segment); }));
  cluster.start(1);
  EXPECT_EQ(cluster.push(11, 100).status, Status::done);
  cluster.expect_pushed(1, 11);
}

TEST(ShardHost, ADiskOfAnotherJobIsRefused) {
  Cluster cluster;
  cluster.start(1);
  cluster.close(1);
  ShardHostSettings settings;
  settings.job = "another";
  settings.self = {1, 99};
  try {
    const ShardHost host(settings, std::make_unique<BorrowedDisk>(cluster.disk(1)), {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("belongs to job 'job', not 'another'"),
              std::string::npos)
        << error.what();
  }
}

TEST(ShardHost, FetchesDoNotWaitForUpdates) {
  // An update of some hundred milliseconds at least, with several stripes and a costly rule.
  constexpr std::uint64_t kElements = 1 << 22;
  Cluster cluster({.files = false});
  cluster.start(1);
  EXPECT_EQ(cluster.give(define_command(definition({slice("w", kElements, optim::Adam{.lr = 1})})))
                .status,
            Status::done);
  EXPECT_EQ(cluster.give(initialize(0, std::vector<float>(kElements))).status, Status::done);
  EXPECT_EQ(cluster.give(join_command(1, "replica")).status, Status::done);
  calls::FetchRequest request;
  request.ranges = {{0, 0, 0, 65536}};
  std::size_t fetches = 0;
  // While the first update is made this thread may have no core.
  for (std::uint64_t sequence = 1; fetches <= 3 && sequence <= 5; ++sequence) {
    std::atomic<bool> applied = false;
    const auto gradient =
        server::test::push(1, sequence, sequence - 1, std::vector<float>(kElements, -1));
    cluster.host(1).command(std::make_shared<const Bytes>(gradient),
                            [&](calls::Answered) { applied = true; });
    for (fetches = 0; !applied; ++fetches) {
      ASSERT_EQ(cluster.host(1).fetch(request).outcome, Outcome::done);
    }
  }
  EXPECT_GT(fetches, 3u);
}

TEST(ShardHost, FetchesLeaveOutWhatIsKnownAndRound) {
  Cluster cluster({.files = false});
  cluster.start(1);
  EXPECT_EQ(cluster.give(define_command(definition({slice("a", 3), slice("b", 2)}))).status,
            Status::done);
  EXPECT_EQ(cluster.give(initialize(0, {1, 2, 3})).status, Status::done);
  EXPECT_EQ(cluster.give(initialize(1, {4, 5}, 7)).status, Status::done);
  calls::FetchRequest request;
  request.ranges = {{0, 0, 1, 2}, {1, 0, 0, 2}};
  request.unless = {5, 7};
  request.encoding = Encoding::bf16;
  auto answer = cluster.host(1).fetch(request);
  ASSERT_EQ(answer.outcome, Outcome::done) << answer.reason;
  const auto fetched = calls::decode_fetched(answer.content);
  EXPECT_EQ(fetched.index, 3u);
  EXPECT_EQ(fetched.versions, (std::vector<std::uint64_t>{0, 7}));
  EXPECT_EQ(fetched.sent, (std::vector<bool>{true, false}));
  EXPECT_EQ(fetched.values.size(), 4u);
  request.ranges[0].size = 3;
  answer = cluster.host(1).fetch(request);
  EXPECT_EQ(answer.outcome, Outcome::refused);
  EXPECT_NE(answer.reason.find("'a'"), std::string::npos) << answer.reason;
}

}  // namespace
}  // namespace convoy::server::host::test
