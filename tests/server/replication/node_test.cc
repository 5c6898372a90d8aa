#include "server/replication/node.h"

#include <gtest/gtest.h>

#include "server/replication/authority.h"

namespace convoy::server::replication {
namespace {

const Rules kRules;
constexpr Member kOne{1, 10}, kTwo{2, 20};

Command command() { return std::make_shared<const Bytes>(8, std::byte{1}); }

template <typename T>
std::vector<T> all(const Effects& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const T* each = std::get_if<T>(&effect)) found.push_back(*each);
  }
  return found;
}

Message newest(const Member& to, Configuration configuration, Time time) {
  return {0, {}, to, Newest{{1, time}, configuration}};
}

Node node_of(const Member& member, std::uint64_t commands = 0) {
  LogShape log;
  for (std::uint64_t i = 0; i < commands; ++i) log.append({1, 8});
  return Node({0, member, log, commands, 0, true}, {}, kRules);
}

// The primary of epoch 2 with a backup that has joined in session 1.
Node primary_with_backup() {
  Node node = node_of(kOne);
  node.receive(0, newest(kOne, {0, 1, kOne, {}}, 1));
  node.receive(0, {0, kTwo, kOne, JoinRequest{kReplicationVersion, 1, 1, 0, 0, {{0, 0}}}});
  const Effects asked = node.receive(0, {0, kTwo, kOne, AppendAck{1, 1, 0, 0, 0, false}});
  EXPECT_EQ(std::get<Change>(all<Send>(asked).at(0).message.body).next,
            (Configuration{0, 2, kOne, kTwo}));
  node.receive(0, newest(kOne, {0, 2, kOne, kTwo}, 2));
  return node;
}

TEST(Node, RepliesOnlyAfterBothHaveWritten) {
  Node node = primary_with_backup();
  const Effects proposed = node.propose(1, 77, command());
  ASSERT_EQ(all<WriteLog>(proposed).size(), 1u);
  EXPECT_EQ(all<SendEntries>(proposed).size(), 1u);
  EXPECT_TRUE(all<Apply>(proposed).empty());
  EXPECT_TRUE(all<Apply>(node.log_written(2, all<WriteLog>(proposed)[0].ticket)).empty());
  // What it said in an earlier epoch or session doesn't count.
  EXPECT_TRUE(
      all<Apply>(node.receive(3, {0, kTwo, kOne, AppendAck{1, 1, 1, 1, 1, false}})).empty());
  EXPECT_TRUE(
      all<Apply>(node.receive(3, {0, kTwo, kOne, AppendAck{2, 9, 1, 1, 1, false}})).empty());
  const Effects done = node.receive(4, {0, kTwo, kOne, AppendAck{2, 1, 1, 1, 1, false}});
  ASSERT_EQ(all<Reply>(done).size(), 1u);
  EXPECT_EQ(all<Reply>(done)[0].token, 77u);
}

TEST(Node, IsNotPrimaryBecauseAnEarlierLifeWas) {
  Node node = node_of({1, 11});
  node.receive(0, newest({1, 11}, {0, 4, kOne, {}}, 1));
  EXPECT_EQ(node.role(), Role::idle);
  const Effects answer = node.propose(1, 5, command());
  ASSERT_EQ(all<Reject>(answer).size(), 1u);
  EXPECT_FALSE(all<Reject>(answer)[0].unknown);
}

TEST(Node, RefusesAnOldEpoch) {
  Node node = node_of(kTwo);
  node.receive(0, newest(kTwo, {0, 5, kTwo, {}}, 1));
  const Append append{{0, 4, kOne, kTwo}, 1, {}, 0, {{1, 4, command()}}};
  const Effects answer = node.receive(1, {0, kOne, kTwo, append});
  EXPECT_TRUE(all<WriteLog>(answer).empty());
  EXPECT_EQ(std::get<Refusal>(all<Send>(answer).at(0).message.body),
            (Refusal{Refusal::Kind::old_epoch, 5, 1}));
}

TEST(Node, RefusesAnotherVersion) {
  Node node = node_of(kOne);
  node.receive(0, newest(kOne, {0, 1, kOne, {}}, 1));
  const Effects answer = node.receive(0, {0, kTwo, kOne, JoinRequest{9, 1, 1, 0, 0, {{0, 0}}}});
  EXPECT_EQ(std::get<JoinAnswer>(all<Send>(answer).at(0).message.body).reason,
            "node 2 replicates with version 9, its primary with 1");
}

TEST(Node, ClosesATransferThatIsAskedForAgain) {
  Node node = node_of(kOne, 5);
  node.receive(0, newest(kOne, {0, 2, kOne, {}}, 1));
  node.snapshot_saved(0, 5);
  const auto ask = [&](std::uint64_t session) {
    const JoinRequest request{kReplicationVersion, session, 2, 0, 0, {{0, 0}}};
    return node.receive(1, {0, kTwo, kOne, request});
  };
  const Effects first = ask(1);
  ASSERT_EQ(all<OpenSnapshot>(first).size(), 1u);
  EXPECT_TRUE(ask(1).empty());  // the same request, doubled
  const Effects second = ask(2);
  ASSERT_EQ(all<CloseSnapshot>(second).size(), 1u);
  EXPECT_EQ(all<CloseSnapshot>(second)[0].transfer, all<OpenSnapshot>(first)[0].transfer);
  EXPECT_EQ(all<OpenSnapshot>(second).size(), 1u);
}

// What a joiner has acknowledged says nothing after the primary's own log has lost it.
TEST(Node, BelievesNoJoinerAfterItsLogFailed) {
  Node node = node_of(kOne);
  node.receive(0, newest(kOne, {0, 1, kOne, {}}, 1));
  node.propose(0, 1, command());  // index 1 isn't written yet
  node.receive(0, {0, kTwo, kOne, JoinRequest{kReplicationVersion, 1, 1, 0, 0, {{0, 0}}}});
  const Effects failed = node.log_failed(1, 0);
  ASSERT_EQ(all<Reject>(failed).size(), 1u);
  EXPECT_TRUE(all<Reject>(failed)[0].unknown);
  node.log_usable(2);
  node.receive(3, newest(kOne, {0, 2, kOne, {}}, 2));
  const Effects proposed = node.propose(4, 2, command());
  EXPECT_TRUE(all<SendEntries>(proposed).empty());
  const Effects acked = node.receive(5, {0, kTwo, kOne, AppendAck{2, 1, 1, 1, 1, false}});
  EXPECT_TRUE(all<Send>(acked).empty());  // no request to make it the backup
}

TEST(Authority, TakesNoDelayedMessageForASignOfLife) {
  Authority authority(0, 42, {}, kRules);
  const Member old{1, 9};
  const auto report = [](Stamp echo) { return Report{echo, 0, Role::idle, true, true, {}, 0, 0}; };
  authority.receive(1, {0, old, {}, report({41, 1})});  // answers another authority
  EXPECT_TRUE(authority.standings(0).empty());
  authority.receive(5, {0, kOne, {}, report({42, 4})});
  authority.receive(6, {0, old, {}, report({42, 2})});
  ASSERT_EQ(authority.standings(0).size(), 1u);
  EXPECT_EQ(authority.standings(0)[0].now, kOne);
}

}  // namespace
}  // namespace convoy::server::replication
