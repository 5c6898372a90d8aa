#include "server/coordinator/ledger.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/server/coordinator/ledger_fixture.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;

TEST(Ledger, ReplicasWorkByNumberAlsoOnPortionsThatItDoesNotKnow) {
  Ledger ledger(plan(4, 8, 1), 64);
  ledger.enter(1);
  const Portion one = next(ledger, 1), two = next(ledger, 1);
  // A power cut has taken a portion behind these.
  JobProgress progress;
  ledger.view().fill({{1, so_far({two.number + 5, 0, 0, 8}, 3)}}, progress);
  EXPECT_EQ(progress.consumed, (std::vector<Range>{{0, 16}}));
  JobProgress early;
  ledger.view().fill({{1, so_far({one.number - 1, 0, 0, 8}, 3)}}, early);
  EXPECT_EQ(early.samples, 0u);
  const auto lost = ledger.leave(1, two.number << 32, (two.number + 5) << 32 | 3);
  EXPECT_EQ(lost.done, 8u);
  EXPECT_EQ(lost.rest, 8u);
  EXPECT_EQ(lost.twice, 8u);
}

TEST(Ledger, HandsOutAscendingAndTheNextEpochWhenThisOneIs) {
  Ledger ledger(plan(4, 8, 2), 20);
  ledger.enter(1);
  ledger.enter(2);
  std::vector<std::pair<std::uint64_t, Range>> handed;
  for (int i = 0; i < 6; ++i) {
    const Portion portion = next(ledger, 1 + i % 2);
    EXPECT_EQ(portion.number, static_cast<std::uint64_t>(i) + 1);
    handed.emplace_back(portion.epoch, range(portion));
  }
  const std::vector<std::pair<std::uint64_t, Range>> expected = {
      {0, {0, 8}}, {0, {8, 16}}, {0, {16, 20}}, {1, {0, 8}}, {1, {8, 16}}, {1, {16, 20}}};
  EXPECT_EQ(handed, expected);
  EXPECT_TRUE(ledger.all_handed());
  EXPECT_FALSE(ledger.all_done());
  EXPECT_EQ(ledger.hand_out(1, 6, 100).kind, HandedKind::wait);
  for (std::uint64_t number = 1; number <= 6; ++number) {
    EXPECT_FALSE(ledger.finished(number % 2 == 1 ? 2 : 1, number)) << "another's";
    EXPECT_TRUE(ledger.finished(number % 2 == 1 ? 1 : 2, number));
    EXPECT_FALSE(ledger.finished(number % 2 == 1 ? 1 : 2, number)) << "again";
  }
  EXPECT_FALSE(ledger.finished(9, 1));
  EXPECT_TRUE(ledger.all_done());
  EXPECT_EQ(ledger.samples(), 40u);
  EXPECT_EQ(ledger.hand_out(1, 6, 100).kind, HandedKind::finished);
}

TEST(Ledger, GivesAgainWhatWasLeasedWithALostAnswer) {
  Ledger ledger(plan(4, 8, 1), 64);
  ledger.enter(1);
  const auto first = ledger.hand_out(1, 0, 2);
  EXPECT_TRUE(first.changed);
  const auto again = ledger.hand_out(1, 0, 2);
  EXPECT_FALSE(again.changed);
  EXPECT_EQ(again.portion, first.portion);
  const auto second = ledger.hand_out(1, 1, 2);
  EXPECT_EQ(second.portion.number, 2u);
  EXPECT_EQ(ledger.hand_out(1, 1, 2).portion.number, 2u);
  EXPECT_EQ(ledger.hand_out(1, 2, 2).kind, HandedKind::wait) << "two at most";
  EXPECT_TRUE(ledger.finished(1, 1));
  EXPECT_EQ(ledger.hand_out(1, 2, 2).portion.number, 3u);
}

TEST(Ledger, WhatALostReplicaHadIsRedoneFirst) {
  Ledger ledger(plan(4, 8, 1), 64);
  ledger.enter(1);
  ledger.enter(2);
  next(ledger, 1);                         // 0 to 8
  const Portion second = next(ledger, 1);  // 8 to 16
  next(ledger, 2);                         // 16 to 24
  const auto lost = ledger.leave(1, so_far(second, 3), so_far(second, 6));
  EXPECT_EQ(lost.done, 8u + 3u);
  EXPECT_EQ(lost.rest, 5u);
  EXPECT_EQ(lost.twice, 3u);
  EXPECT_EQ(ledger.twice(), 3u);
  EXPECT_EQ(ledger.samples(), 11u);
  EXPECT_EQ(ledger.left_to_redo(), 5u);
  EXPECT_FALSE(ledger.has(1));
  const Portion again = next(ledger, 2);
  EXPECT_EQ(range(again), (Range{11, 16}));
  EXPECT_EQ(again.number, 4u);
  EXPECT_EQ(ledger.redone(), 1u);
  EXPECT_EQ(range(next(ledger, 2)), (Range{24, 32}));
  // Nothing was pushed; then all of it; and what it can't have pushed.
  ledger.enter(3);
  const Portion third = next(ledger, 3);
  EXPECT_EQ(ledger.leave(3, 0, 0).rest, 8u);
  ledger.enter(4);
  const Portion fourth = next(ledger, 4);
  EXPECT_EQ(range(fourth), range(third));
  EXPECT_EQ(ledger.leave(4, so_far(fourth, 1000), so_far(fourth, UINT32_MAX)).done, 8u);
  ledger.enter(5);
  const Portion fifth = next(ledger, 5);
  EXPECT_EQ(ledger.leave(5, so_far({1, 0, 0, 8}, 8), UINT64_MAX).rest, 8u) << "never had it";
  ledger.enter(6);
  EXPECT_EQ(range(next(ledger, 6)), range(fifth));
  EXPECT_EQ(ledger.leave(99, 0, 0).rest, 0u);
}

TEST(Ledger, CountsEpochsSamplesAndLastBatches) {
  JobPlan whole = plan(8, 16, 1);
  whole.drop_last = true;
  Ledger dropped(whole, 23);
  EXPECT_EQ(dropped.epoch_length(), 16u);
  dropped.enter(1);
  EXPECT_EQ(range(next(dropped, 1)), (Range{0, 16}));
  EXPECT_TRUE(dropped.all_handed());

  JobPlan limited = plan(8, 16, 0);
  limited.samples = 50;
  Ledger ledger(limited, 23);
  ledger.enter(1);
  EXPECT_EQ(range(next(ledger, 1)), (Range{0, 16}));
  EXPECT_EQ(range(next(ledger, 1)), (Range{16, 23}));
  EXPECT_EQ(range(next(ledger, 1)), (Range{0, 16}));
  EXPECT_EQ(range(next(ledger, 1)), (Range{16, 23}));
  const Portion last = next(ledger, 1);
  EXPECT_EQ(last.epoch, 2u);
  EXPECT_EQ(range(last), (Range{0, 4}));
  EXPECT_TRUE(ledger.all_handed());
  for (std::uint64_t number = 1; number <= 5; ++number) EXPECT_TRUE(ledger.finished(1, number));
  EXPECT_TRUE(ledger.all_done());
  EXPECT_EQ(ledger.samples(), 50u);
  JobProgress progress;
  ledger.view().fill({}, progress);
  EXPECT_EQ(progress.epoch, 2u);
  EXPECT_EQ(progress.consumed, (std::vector<Range>{{0, 4}}));
  EXPECT_EQ(progress.samples, 50u);

  Ledger nothing(whole, 7);  // not one batch
  nothing.enter(1);
  EXPECT_EQ(nothing.hand_out(1, 0, 2).kind, HandedKind::finished);
}

TEST(Ledger, GoesOnFromACheckpoint) {
  JobPlan resumed = plan(4, 8, 3);
  resumed.first_epoch = 1;
  resumed.consumed = {{0, 6}, {10, 13}, {20, 24}, {30, 99}};
  Ledger ledger(resumed, 32);
  EXPECT_EQ(ledger.samples(), 32u + 6 + 3 + 4 + 2);
  ledger.enter(1);
  std::vector<Range> handed;
  while (!ledger.all_handed()) {
    const Portion portion = next(ledger, 1);
    if (portion.epoch == 1) handed.push_back(range(portion));
    EXPECT_TRUE(ledger.finished(1, portion.number));
  }
  EXPECT_EQ(handed, (std::vector<Range>{{6, 10}, {13, 20}, {24, 30}}));
  EXPECT_EQ(ledger.samples(), 96u);
  EXPECT_TRUE(ledger.all_done());
  JobPlan complete = plan(4, 8, 2);
  complete.first_epoch = 1;
  complete.consumed = {{0, 32}};
  EXPECT_TRUE(Ledger(complete, 32).all_done());
  // A limit counts what was done before.
  JobPlan limited = plan(4, 8, 0);
  limited.samples = 40;
  limited.first_epoch = 1;
  limited.consumed = {{0, 6}};
  Ledger two_left(limited, 32);
  two_left.enter(1);
  EXPECT_EQ(range(next(two_left, 1)), (Range{6, 8}));
  EXPECT_TRUE(two_left.all_handed());
}

TEST(Ledger, ACutSaysWhatIsInTheParameters) {
  Ledger ledger(plan(4, 8, 2), 16);
  ledger.enter(1);
  ledger.enter(2);
  const Portion a = next(ledger, 1), b = next(ledger, 2);
  EXPECT_TRUE(ledger.finished(1, a.number));
  const Portion c = next(ledger, 1);  // of the next epoch
  JobProgress progress;
  LedgerView view = ledger.view();
  view.fill({{2, so_far(b, 5)}, {1, so_far(c, 2)}}, progress);
  EXPECT_EQ(progress.epoch, 0u);
  EXPECT_EQ(progress.consumed, (std::vector<Range>{{0, 13}}));
  EXPECT_EQ(progress.samples, 8u + 5 + 2);
  view.fill({{2, so_far(b, 8)}, {1, so_far(c, 2)}}, progress);
  EXPECT_EQ(progress.epoch, 1u);
  EXPECT_EQ(progress.consumed, (std::vector<Range>{{0, 2}}));
  // A push for a portion that is behind it says that it is done.
  const Portion d = next(ledger, 2);
  view = ledger.view();
  view.fill({{2, so_far(d, 1)}, {1, so_far(a, 8)}}, progress);
  EXPECT_EQ(progress.epoch, 1u);
  EXPECT_EQ(progress.consumed, (std::vector<Range>{{8, 9}}));
}

TEST(Ledger, RefusesBytesThatAreNone) {
  JobPlan resumed = plan(4, 8, 3);
  resumed.consumed = {{0, 6}, {10, 13}};
  Ledger ledger(resumed, 32);
  ledger.enter(1);
  next(ledger, 1);
  next(ledger, 1);
  ledger.enter(2);
  next(ledger, 2);
  ledger.leave(2, 0, 0);
  const Bytes head = ledger.encode(), group = ledger.encode(1);
  for (std::size_t size = 0; size < head.size(); ++size) {
    Ledger other(resumed, 32);
    EXPECT_THROW(other.decode(std::span(head).first(size)), UsageError);
  }
  for (std::size_t size = 0; size < group.size(); ++size) {
    Ledger other(resumed, 32);
    EXPECT_THROW(other.decode(1, std::span(group).first(size)), UsageError);
  }
  Ledger shorter(resumed, 31);
  EXPECT_THROW(shorter.decode(head), UsageError);
}

}  // namespace
}  // namespace convoy::server::coordinator
