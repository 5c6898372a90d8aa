#include "server/coordinator/group_ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::server::coordinator {
namespace {

using GroupKind = GroupLedger::Handed::Kind;
using Taken = GroupLedger::Taken;
using Groups = std::vector<PortionGroup>;

constexpr Time kSecond = 1'000'000;

GroupOptions batch_of(std::uint32_t portions, std::uint8_t largest = 4) {
  GroupOptions options;
  options.portions = portions;
  options.largest = largest;
  return options;
}

std::vector<double> losses_of(const PortionGroup& group, double each = 1) {
  return std::vector<double>(portions_of(group), each);
}

// A replica that does one group after the other, each portion in so much time.
struct Worker {
  GroupLedger& ledger;
  std::uint64_t id;
  Time portion_time;
  Time at = 0;

  std::optional<PortionGroup> work() {
    const auto handed = ledger.lease(at, id, {});
    if (handed.kind != GroupKind::group) return std::nullopt;
    at += portion_time * portions_of(handed.group);
    EXPECT_EQ(ledger.finished(at, id, ledger.evaluation(), handed.group, losses_of(handed.group)),
              Taken::counted);
    return handed.group;
  }
};

TEST(GroupLedger, GroupsGetSmallerAndHaveOnePortionAtTheEnd) {
  GroupLedger ledger(batch_of(256));
  ledger.enter(1);
  ledger.begin({3, 1});
  Worker alone{ledger, 1, kSecond};
  std::vector<PortionGroup> done;
  while (!ledger.complete()) {
    const auto group = alone.work();
    ASSERT_TRUE(group);
    done.push_back(*group);
  }
  std::uint32_t next = 0, largest = 0;
  for (const PortionGroup& group : done) {
    EXPECT_EQ(group.first, next) << "portions follow each other";
    next = end_of(group);
    largest = std::max(largest, portions_of(group));
    EXPECT_EQ(group.first % portions_of(group), 0u);
  }
  EXPECT_EQ(next, 256u);
  EXPECT_EQ(largest, 16u);
  EXPECT_EQ(portions_of(done.back()), 1u);
  EXPECT_EQ(ledger.loss(), 256.0);
  EXPECT_EQ(ledger.counts().done, 256u);
  EXPECT_EQ(ledger.counts().copies, 0u);
  EXPECT_EQ(ledger.lease(alone.at, 1, {}).kind, GroupKind::ended);
}

TEST(GroupLedger, ReplicasBeginApartAndGetTheSamePortionsAgain) {
  GroupLedger ledger(batch_of(64, 0));
  std::vector<Worker> workers;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ledger.enter(id);
    workers.push_back({ledger, id, kSecond});
  }
  std::vector<std::vector<std::uint32_t>> before(5), now(5);
  for (int iteration = 0; iteration < 3; ++iteration) {
    ledger.begin({iteration, 0});
    for (auto& each : now) each.clear();
    while (!ledger.complete()) {
      for (Worker& worker : workers) {
        if (const auto group = worker.work()) now[worker.id].push_back(group->first);
      }
    }
    if (iteration > 0) {
      for (std::uint64_t id = 1; id <= 4; ++id) {
        EXPECT_EQ(std::set<std::uint32_t>(now[id].begin(), now[id].end()),
                  std::set<std::uint32_t>(before[id].begin(), before[id].end()))
            << "replica " << id << " in iteration " << iteration;
      }
    }
    before = now;
  }
}

TEST(GroupLedger, WhoIsFasterGetsMoreAndOneAhead) {
  GroupLedger ledger(batch_of(128));
  ledger.enter(1);
  ledger.begin({0, 0});
  const auto first = ledger.lease(0, 1, {});
  ASSERT_EQ(first.kind, GroupKind::group);
  const Groups held = {first.group};
  const auto ahead = ledger.lease(0, 1, held);
  ASSERT_EQ(ahead.kind, GroupKind::group);
  EXPECT_EQ(ahead.group.first, end_of(first.group));
  const Groups both = {first.group, ahead.group};
  EXPECT_EQ(ledger.lease(0, 1, both).kind, GroupKind::wait) << "two at most";
  // The answer with the second one got lost.
  const auto again = ledger.lease(0, 1, held);
  EXPECT_EQ(again.group, ahead.group);
  EXPECT_FALSE(again.changed);
}

TEST(GroupLedger, WhatALostReplicaHadIsHandedOutAgainAsAWhole) {
  GroupLedger ledger(batch_of(64));
  ledger.enter(1);
  ledger.enter(2);
  ledger.begin({0, 0});
  const PortionGroup lost = ledger.lease(0, 1, {}).group;
  ASSERT_GT(portions_of(lost), 1u);
  ledger.leave(1);
  EXPECT_FALSE(ledger.has(1));
  const auto again = ledger.lease(kSecond, 2, {});
  EXPECT_EQ(again.group, lost);
  EXPECT_FALSE(again.copy);
  EXPECT_EQ(ledger.counts().again, portions_of(lost));
  // It was only taken for lost, and comes with it.
  EXPECT_EQ(ledger.finished(kSecond, 1, {0, 0}, lost, losses_of(lost, 2)), Taken::counted);
  EXPECT_EQ(ledger.finished(kSecond, 2, {0, 0}, lost, losses_of(lost, 2)), Taken::repeated);
  EXPECT_EQ(ledger.loss(), 2.0 * portions_of(lost)) << "counted once";
  EXPECT_EQ(ledger.counts().unused, portions_of(lost));
  ledger.begin({0, 1});
  EXPECT_EQ(ledger.finished(kSecond, 1, {0, 0}, lost, losses_of(lost)), Taken::late);
  EXPECT_EQ(ledger.counts().done, 0u);
}

TEST(GroupLedger, AnotherOneTriesWhatOneIsLateWith) {
  GroupLedger ledger(batch_of(4, 0));
  ledger.enter(1);
  ledger.enter(2);
  ledger.begin({0, 0});
  Worker fast{ledger, 1, kSecond};
  fast.work();
  const PortionGroup late = ledger.lease(0, 2, {}).group;
  while (ledger.counts().done < 3) ASSERT_TRUE(fast.work());
  ASSERT_EQ(ledger.counts().copies, 0u);
  const auto early = ledger.lease(fast.at, 1, {});
  // Nobody knows yet how fast the other one is, so that it is taken to be as fast; it is late now.
  ASSERT_EQ(early.kind, GroupKind::group);
  EXPECT_EQ(early.group, late);
  EXPECT_TRUE(early.copy);
  EXPECT_EQ(ledger.holders(late), 2u);
  EXPECT_EQ(ledger.finished(fast.at + kSecond, 1, {0, 0}, late, losses_of(late)), Taken::counted);
  EXPECT_TRUE(ledger.complete());
  const Groups held = {late};
  const auto told = ledger.lease(fast.at + kSecond, 2, held);
  EXPECT_EQ(told.unused, held);
  EXPECT_EQ(told.kind, GroupKind::ended);
}

TEST(GroupLedger, NobodyGetsACopyOfWhatWillBeDoneSooner) {
  GroupLedger ledger(batch_of(4, 0));
  ledger.enter(1);
  ledger.enter(2);
  ledger.begin({0, 0});
  Worker one{ledger, 1, kSecond}, two{ledger, 2, kSecond};
  one.work();
  two.work();
  const PortionGroup last = ledger.lease(kSecond, 1, {}).group;
  two.work();
  ASSERT_EQ(ledger.counts().done, 3u);
  const auto handed = ledger.lease(kSecond + kSecond / 2, 2, {});
  EXPECT_EQ(handed.kind, GroupKind::wait);
  // It would be done half a second after the other one, and is so again once that is so late.
  EXPECT_EQ(handed.until, 2 * kSecond + kSecond / 2 + 1);
  EXPECT_EQ(ledger.lease(2 * kSecond + kSecond / 2 + 1, 2, {}).group, last);

  GroupOptions without = batch_of(2, 0);
  without.backups = false;
  GroupLedger none(without);
  none.enter(1);
  none.enter(2);
  none.begin({0, 0});
  none.lease(0, 1, {});
  Worker worker{none, 2, kSecond};
  worker.work();
  EXPECT_EQ(none.lease(1000 * kSecond, 2, {}).kind, GroupKind::wait);
}

TEST(GroupLedger, MoreReplicasThanPortions) {
  GroupLedger ledger(batch_of(1));
  for (std::uint64_t id = 1; id <= 5; ++id) ledger.enter(id);
  ledger.begin({0, 0});
  const auto first = ledger.lease(0, 1, {});
  EXPECT_EQ(first.group, (PortionGroup{0, 0}));
  const auto second = ledger.lease(kSecond, 2, {});
  EXPECT_EQ(second.kind, GroupKind::wait);
  EXPECT_EQ(second.until, 10 * kSecond) << "nobody knows how long a portion takes";
  EXPECT_TRUE(ledger.lease(10 * kSecond, 2, {}).copy);
  EXPECT_TRUE(ledger.lease(10 * kSecond, 3, {}).copy);
  EXPECT_EQ(ledger.lease(10 * kSecond, 4, {}).kind, GroupKind::wait) << "three at most";
  EXPECT_EQ(ledger.finished(11 * kSecond, 3, {0, 0}, {0, 0}, losses_of({0, 0}, 5)), Taken::counted);
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.loss(), 5.0);
}

TEST(GroupLedger, WhatShardsLackIsDoneAgainAndItsLossCountsOnce) {
  GroupLedger ledger(batch_of(16, 2));
  ledger.enter(1);
  ledger.begin({0, 0});
  Worker worker{ledger, 1, kSecond};
  while (!ledger.complete()) ASSERT_TRUE(worker.work());
  ledger.missing(2, 3);
  EXPECT_FALSE(ledger.complete());
  const auto again = ledger.lease(worker.at, 1, {});
  ASSERT_EQ(again.kind, GroupKind::group);
  EXPECT_LE(again.group.first, 2u);
  EXPECT_GT(end_of(again.group), 2u);
  EXPECT_EQ(ledger.finished(worker.at, 1, {0, 0}, again.group, losses_of(again.group)),
            Taken::counted);
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(ledger.loss(), 16.0);
}

TEST(GroupLedger, NamesThePortionWhoseLossIsNone) {
  GroupLedger ledger(batch_of(16, 2));
  ledger.enter(1);
  ledger.begin({0, 0});
  const PortionGroup group = ledger.lease(0, 1, {}).group;
  ASSERT_EQ(portions_of(group), 2u);
  const std::vector<double> losses = {1, std::numeric_limits<double>::quiet_NaN()};
  ledger.finished(kSecond, 1, {0, 0}, group, losses);
  EXPECT_EQ(ledger.not_finite(), 1u);
  EXPECT_TRUE(std::isnan(ledger.loss()));
  EXPECT_TRUE(ledger.hopeless());
  EXPECT_EQ(ledger.lease(kSecond, 1, {}).kind, GroupKind::ended);
  GroupLedger after(batch_of(16, 2));
  after.decode(ledger.encode());
  after.decode(0, ledger.encode(0));
  EXPECT_TRUE(after.hopeless());
  ledger.begin({0, 1});
  EXPECT_EQ(ledger.not_finite(), std::nullopt);
  EXPECT_FALSE(ledger.hopeless());
  EXPECT_EQ(ledger.loss(), 0.0);
}

TEST(GroupLedger, RefusesWhatNobodyCanHaveDone) {
  GroupLedger ledger(batch_of(16, 2));
  ledger.enter(1);
  ledger.begin({0, 0});
  const PortionGroup group = ledger.lease(0, 1, {}).group;
  EXPECT_THROW(ledger.finished(0, 1, {0, 0}, {8, 0}, losses_of({8, 0})), UsageError);
  EXPECT_THROW(ledger.finished(0, 1, {0, 0}, group, losses_of({0, 3})), UsageError);
  EXPECT_THROW(GroupLedger(batch_of(0)), UsageError);
  EXPECT_THROW(GroupLedger(batch_of(8, 9)), UsageError);
}

TEST(GroupLedger, GoesOnFromItsBytes) {
  GroupLedger ledger(batch_of(600, 3));
  ledger.enter(1);
  ledger.begin({2, 7});
  Worker worker{ledger, 1, kSecond};
  for (int i = 0; i < 40; ++i) worker.work();
  const PortionGroup held = ledger.lease(worker.at, 1, {}).group;
  EXPECT_FALSE(ledger.take_changed().empty());
  EXPECT_TRUE(ledger.take_changed().empty());

  GroupLedger next(batch_of(600, 3));
  next.decode(ledger.encode());
  for (std::uint32_t block = 0; block < 3; ++block) next.decode(block, ledger.encode(block));
  EXPECT_TRUE(next.open());
  EXPECT_EQ(next.evaluation(), (EvaluationId{2, 7}));
  EXPECT_EQ(next.counts().done, ledger.counts().done);
  EXPECT_EQ(next.loss(), ledger.loss());
  // Who works on one says so; what nobody names is handed out again.
  next.enter(1);
  next.enter(2);
  const auto goes_on = next.lease(worker.at, 1, Groups{held});
  ASSERT_EQ(goes_on.kind, GroupKind::group) << "one ahead";
  EXPECT_TRUE(goes_on.unused.empty());
  EXPECT_EQ(next.holders(held), 1u);
  EXPECT_NE(next.lease(worker.at, 2, {}).group, held);
  EXPECT_EQ(next.finished(worker.at, 1, {2, 7}, held, losses_of(held)), Taken::counted);

  GroupLedger other(batch_of(600, 3));
  other.begin({2, 8});
  other.decode(0, ledger.encode(0));
  EXPECT_EQ(other.counts().done, 0u) << "of another evaluation";
  Bytes bytes = ledger.encode(0);
  EXPECT_THROW(next.decode(0, bytes), UsageError) << "twice";
  GroupLedger cut(batch_of(600, 3));
  cut.decode(ledger.encode());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(cut.decode(0, std::span(bytes).first(size)), UsageError);
    cut.begin({2, 7});
  }
  bytes.back() = std::byte{8};  // no sum has this
  EXPECT_THROW(cut.decode(0, bytes), UsageError);
  GroupLedger smaller(batch_of(599, 3));
  EXPECT_THROW(smaller.decode(ledger.encode()), UsageError);
}

}  // namespace
}  // namespace convoy::server::coordinator
