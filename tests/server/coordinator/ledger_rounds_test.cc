// A ledger in rounds: a staleness bound of 0.
#include "server/coordinator/ledger.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/server/coordinator/ledger_fixture.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;

TEST(Ledger, InRoundsEachReplicaHasOneShareOfEach) {
  JobPlan rounds = in_rounds(4, 3, 1);
  Ledger ledger(rounds, 31);
  enter(ledger, 3);
  EXPECT_EQ(range(next(ledger, 1)), (Range{0, 4}));
  EXPECT_EQ(ledger.hand_out(1, 1, 2).kind, HandedKind::wait) << "nothing is leased ahead";
  EXPECT_TRUE(ledger.finished(1, 1));
  EXPECT_EQ(ledger.hand_out(1, 1, 2).kind, HandedKind::wait) << "the others come first";
  EXPECT_EQ(range(next(ledger, 2)), (Range{4, 8}));
  EXPECT_EQ(range(next(ledger, 3)), (Range{8, 12}));
  EXPECT_EQ(range(next(ledger, 1)), (Range{12, 16}));
  // One that is lost keeps nobody waiting, and one that comes has a share at once.
  EXPECT_TRUE(ledger.finished(2, 2));
  ledger.leave(3, 0, 0);
  EXPECT_EQ(range(next(ledger, 2)), (Range{8, 12})) << "redone";
  ledger.enter(4);
  EXPECT_EQ(range(next(ledger, 4)), (Range{16, 20}));
  // The last batch is divided among all.
  for (const std::uint64_t group : {1, 2, 4}) {
    EXPECT_TRUE(ledger.finished(group, ledger.held(group).front().number));
  }
  EXPECT_EQ(range(next(ledger, 4)), (Range{20, 24}));
  EXPECT_EQ(range(next(ledger, 1)), (Range{24, 28}));
  EXPECT_EQ(range(next(ledger, 2)), (Range{28, 31}));
  EXPECT_TRUE(ledger.finished(2, ledger.held(2).front().number));
  EXPECT_EQ(ledger.hand_out(2, UINT64_MAX, 2).kind, HandedKind::finished) << "it blocks no round";
  EXPECT_FALSE(ledger.all_done());

  rounds.drop_last = true;
  EXPECT_EQ(Ledger(rounds, 31).epoch_length(), 24u);
  rounds.drop_last = false;
  Ledger even(rounds, 8);
  for (std::uint64_t group = 1; group <= 3; ++group) even.enter(group);
  EXPECT_EQ(range(next(even, 1)), (Range{0, 3}));
  EXPECT_EQ(range(next(even, 2)), (Range{3, 6}));
  EXPECT_EQ(range(next(even, 3)), (Range{6, 8}));
}

// As `sync` has them: a round is a batch of one epoch, however few samples it has.
TEST(Ledger, InRoundsAnEpochsLastBatchHasNoneOfTheNext) {
  const JobPlan rounds = in_rounds(2, 4, 2);
  Ledger ledger(rounds, 18);
  enter(ledger, 4);
  std::map<std::uint64_t, std::uint64_t> last;
  std::vector<std::vector<std::pair<std::uint64_t, Range>>> had;
  while (!ledger.all_handed()) {
    auto& round = had.emplace_back();
    for (const std::uint64_t group : {3, 1, 4, 2}) {
      const auto handed = ledger.hand_out(group, last[group], 1);
      if (handed.kind == HandedKind::finished) {
        ledger.leave(group, 0, 0);
        continue;
      }
      ASSERT_EQ(handed.kind, HandedKind::portion);
      EXPECT_TRUE(handed.changed);
      last[group] = handed.portion.number;
      round.emplace_back(handed.portion.epoch, range(handed.portion));
      // It is the same after a restart, and when the answer got lost.
      Ledger again(rounds, 18);
      again.decode(ledger.encode());
      for (const std::uint64_t each : {1, 2, 3, 4}) {
        if (ledger.has(each)) again.decode(each, ledger.encode(each));
      }
      EXPECT_EQ(again.hand_out(group, last[group] - 1, 1).portion, handed.portion);
    }
    for (const std::uint64_t group : {1, 2, 3, 4}) {
      if (ledger.has(group)) EXPECT_TRUE(ledger.finished(group, last[group]));
    }
  }
  using Round = std::vector<std::pair<std::uint64_t, Range>>;
  const auto whole = [](std::uint64_t epoch, std::uint64_t from) {
    Round round;
    for (std::uint64_t i = 0; i < 8; i += 2) round.push_back({epoch, {from + i, from + i + 2}});
    return round;
  };
  ASSERT_EQ(had.size(), 6u);
  EXPECT_EQ(had[0], whole(0, 0));
  EXPECT_EQ(had[1], whole(0, 8));
  EXPECT_EQ(had[2], (Round{{0, {16, 17}}, {0, {17, 18}}, {0, {18, 18}}, {0, {18, 18}}}));
  EXPECT_EQ(had[3], whole(1, 0));
  EXPECT_EQ(had[4], whole(1, 8));
  EXPECT_EQ(had[5], (Round{{1, {16, 17}}, {1, {17, 18}}})) << "the others leave";
  EXPECT_TRUE(ledger.all_done());
  EXPECT_EQ(ledger.samples(), 36u);
}

TEST(Ledger, InRoundsWhoHadNothingKeepsNoEpochOpen) {
  const JobPlan rounds = in_rounds(2, 2, 3);
  Ledger ledger(rounds, 5);
  enter(ledger, 2);
  for (const std::uint64_t group : {1, 2}) next(ledger, group);
  for (const std::uint64_t number : {1, 2}) EXPECT_TRUE(ledger.finished(number, number));
  EXPECT_EQ(range(next(ledger, 1)), (Range{4, 5}));
  EXPECT_EQ(range(next(ledger, 2)), (Range{5, 5}));
  // The epoch is over before what says so of the empty share comes.
  EXPECT_TRUE(ledger.finished(1, 3));
  EXPECT_EQ(next(ledger, 1).epoch, 1u);
  EXPECT_TRUE(ledger.finished(2, 4));
  EXPECT_EQ(range(next(ledger, 2)), (Range{2, 4}));
  EXPECT_TRUE(ledger.finished(1, 5));
  EXPECT_TRUE(ledger.finished(2, 6));
  EXPECT_EQ(range(next(ledger, 2)), (Range{4, 5}));
  EXPECT_EQ(range(next(ledger, 1)), (Range{5, 5}));
  // One that is lost with nothing has nothing to be redone.
  EXPECT_EQ(ledger.leave(1, 0, 0).rest, 0u);
  EXPECT_EQ(ledger.left_to_redo(), 0u);
  EXPECT_TRUE(ledger.finished(2, 7));
  JobProgress progress;
  ledger.view().fill({}, progress);
  EXPECT_EQ(progress.epoch, 2u);
  EXPECT_EQ(next(ledger, 2).epoch, 2u);
}

// Also when the one that had the last of them is gone, and all of its epoch is done with it.
TEST(Ledger, InRoundsADeathPutsNoSecondEpochIntoARound) {
  const JobPlan rounds = in_rounds(2, 3, 2);
  const auto epoch_of = [](const Portion& portion) {
    return std::pair{portion.epoch, range(portion)};
  };
  using Of = std::pair<std::uint64_t, Range>;
  for (const bool pushed : {true, false}) {
    for (const bool restarted : {false, true}) {
      auto ledger = std::make_unique<Ledger>(rounds, 13);
      enter(*ledger, 3);
      for (int round = 0; round < 2; ++round) {
        for (const std::uint64_t group : {1, 2, 3}) {
          EXPECT_TRUE(ledger->finished(group, next(*ledger, group).number));
        }
      }
      const Portion last = next(*ledger, 1);
      EXPECT_EQ(epoch_of(last), (Of{0, {12, 13}}));
      const Progress progress = pushed ? so_far(last, 1) : 0;
      ledger->leave(1, progress, progress);
      if (restarted) {
        auto again = std::make_unique<Ledger>(rounds, 13);
        again->decode(ledger->encode());
        for (const std::uint64_t group : {2, 3}) again->decode(group, ledger->encode(group));
        ledger = std::move(again);
      }
      const Of nothing{0, {13, 13}};
      EXPECT_EQ(epoch_of(next(*ledger, 2)), pushed ? nothing : (Of{0, {12, 13}}));
      EXPECT_EQ(epoch_of(next(*ledger, 3)), nothing);
      for (const std::uint64_t group : {2, 3}) {
        EXPECT_TRUE(ledger->finished(group, ledger->held(group).front().number));
      }
      EXPECT_EQ(epoch_of(next(*ledger, 3)), (Of{1, {0, 2}}));
      EXPECT_EQ(epoch_of(next(*ledger, 2)), (Of{1, {2, 4}}));
    }
  }
}

// What comes back of an epoch has a round of its own when the next one has begun.
TEST(Ledger, InRoundsWhatIsRedoneIsOfTheRoundsEpochToo) {
  const JobPlan rounds = in_rounds(2, 3, 2);
  Ledger ledger(rounds, 6);
  enter(ledger, 3);
  for (const std::uint64_t group : {1, 2, 3}) next(ledger, group);
  EXPECT_TRUE(ledger.finished(2, 2));
  EXPECT_TRUE(ledger.finished(3, 3));
  EXPECT_EQ(next(ledger, 2).epoch, 1u);
  ledger.leave(1, 0, 0);
  EXPECT_EQ(range(next(ledger, 3)), (Range{2, 4})) << "of the epoch that the round is of";
  EXPECT_TRUE(ledger.finished(2, 4));
  EXPECT_TRUE(ledger.finished(3, 5));
  const Portion again = next(ledger, 2), none = next(ledger, 3);
  EXPECT_EQ(again.epoch, 0u);
  EXPECT_EQ(range(again), (Range{0, 2}));
  EXPECT_EQ(none.epoch, 0u);
  EXPECT_EQ(range(none), (Range{6, 6}));
}

// As they were stored before the epoch of a round was.
TEST(Ledger, ReadsBytesOfItsFirstVersion) {
  const JobPlan rounds = in_rounds(2, 2, 2);
  Ledger ledger(rounds, 5);
  enter(ledger, 2);
  for (const std::uint64_t group : {1, 2}) {
    EXPECT_TRUE(ledger.finished(group, next(ledger, group).number));
  }
  EXPECT_EQ(range(next(ledger, 1)), (Range{4, 5}));
  Bytes old = ledger.encode();
  constexpr std::size_t kNumbers = 2 + 10 * 8, kEpoch = 1 + 8 + 1;
  old.front() = std::byte{1};
  old.erase(old.begin() + kNumbers, old.begin() + kNumbers + kEpoch);
  Ledger again(rounds, 5);
  again.decode(old);
  for (const std::uint64_t group : {1, 2}) again.decode(group, ledger.encode(group));
  EXPECT_EQ(again.encode(), ledger.encode());
  EXPECT_EQ(range(next(again, 2)), (Range{5, 5}));
  for (const std::uint64_t group : {1, 2}) {
    EXPECT_TRUE(again.finished(group, again.held(group).front().number));
  }
  EXPECT_EQ(next(again, 2).epoch, 1u);
}

Ledger::Handed in_round(Ledger& ledger, std::uint64_t group, std::uint64_t round) {
  return ledger.hand_out(group, UINT64_MAX, 1, UINT64_MAX, round);
}

// Shards may have gone on without a replica that the ledger knows already: rounds are theirs.
TEST(Ledger, RoundsAreThoseOfTheShards) {
  JobPlan rounds = in_rounds(4, 1, 2);
  Ledger ledger(rounds, 8);
  ledger.enter(1);
  EXPECT_EQ(range(in_round(ledger, 1, 0).portion), (Range{0, 4}));
  ledger.enter(2);
  EXPECT_EQ(in_round(ledger, 1, 0).kind, HandedKind::wait) << "it has one";
  EXPECT_TRUE(ledger.finished(1, ledger.held(1).front().number));
  // The first has completed its round alone.
  const Portion rest = in_round(ledger, 1, 1).portion;
  EXPECT_EQ(range(rest), (Range{4, 6}));
  // What is stored knows it, too.
  Ledger again(rounds, 8);
  again.decode(ledger.encode());
  for (const std::uint64_t group : {1, 2}) again.decode(group, ledger.encode(group));
  EXPECT_EQ(again.encode(), ledger.encode());
  const Portion late = in_round(again, 2, 1).portion;
  EXPECT_EQ(range(late), (Range{6, 8}));
  EXPECT_EQ(late.epoch, 0u);
  for (const std::uint64_t group : {1, 2})
    EXPECT_TRUE(again.finished(group, again.held(group).front().number));
  for (const std::uint64_t group : {2, 1}) EXPECT_EQ(in_round(again, group, 2).portion.epoch, 1u);
}

// A power cut may take rounds from shards, and not from the ledger.
TEST(Ledger, RoundsThatShardsHaveLostAreMadeAgain) {
  Ledger ledger(in_rounds(4, 2, 2), 8);
  enter(ledger, 2);
  EXPECT_EQ(range(in_round(ledger, 1, 9).portion), (Range{0, 4}));
  for (const std::uint64_t group : {1, 2}) ledger.leave(group, 0, 0);
  for (const std::uint64_t group : {3, 4}) ledger.enter(group);
  std::uint64_t epochs = 0;
  for (const std::uint64_t round : {7, 8, 9, 10}) {
    std::uint64_t samples = 0;
    for (const std::uint64_t group : {3, 4}) {
      const auto handed = in_round(ledger, group, round);
      if (handed.kind != HandedKind::portion) continue;
      samples += handed.portion.end - handed.portion.begin;
      epochs = std::max(epochs, handed.portion.epoch);
    }
    EXPECT_EQ(samples, round < 9 ? 8u : 0u) << round;
    for (const std::uint64_t group : {3, 4}) {
      if (!ledger.held(group).empty())
        EXPECT_TRUE(ledger.finished(group, ledger.held(group).front().number));
    }
  }
  EXPECT_EQ(epochs, 1u);
  EXPECT_TRUE(ledger.all_done());
}

// Who comes between a round's end and the others' next requests is of the next one.
TEST(Ledger, WhoComesBetweenRoundsIsOfTheNext) {
  Ledger ledger(in_rounds(4, 2, 2), 20);
  enter(ledger, 2);
  for (const std::uint64_t group : {1, 2})
    EXPECT_EQ(in_round(ledger, group, 7).kind, HandedKind::portion);
  for (const std::uint64_t group : {1, 2})
    EXPECT_TRUE(ledger.finished(group, ledger.held(group).front().number));
  ledger.enter(3);
  for (const std::uint64_t group : {3, 1, 2}) {
    const Portion portion = in_round(ledger, group, 8).portion;
    EXPECT_EQ(portion.epoch, 0u);
    EXPECT_EQ(portion.end - portion.begin, 4u);
  }
  // All samples of the epoch are theirs: the next round is of another one.
  for (const std::uint64_t group : {3, 1, 2})
    EXPECT_TRUE(ledger.finished(group, ledger.held(group).front().number));
  EXPECT_EQ(in_round(ledger, 2, 9).portion.epoch, 1u);
  // One whose push did not count has another share of the same round.
  EXPECT_TRUE(ledger.finished(2, ledger.held(2).front().number));
  EXPECT_EQ(in_round(ledger, 2, 9).portion.epoch, 1u);
  // So has one that doesn't know rounds, of which the others have had theirs.
  EXPECT_EQ(in_round(ledger, 1, 9).kind, HandedKind::portion);
  EXPECT_EQ(in_round(ledger, 3, Ledger::kAnyRound).kind, HandedKind::portion);
  EXPECT_TRUE(ledger.finished(3, ledger.held(3).front().number));
  EXPECT_EQ(in_round(ledger, 3, Ledger::kAnyRound).kind, HandedKind::portion);
}

// `training.steps` are batches, of which those that end an epoch have fewer samples.
TEST(Ledger, InRoundsStepsAreThoseOfSync) {
  JobPlan rounds = in_rounds(4, 2, 0);
  const auto samples = [&](std::uint64_t steps, std::uint64_t epoch_samples) {
    rounds.samples = steps * 8;
    Ledger ledger(rounds, epoch_samples);
    ledger.enter(1);
    while (!ledger.all_handed()) EXPECT_TRUE(ledger.finished(1, next(ledger, 1).number));
    EXPECT_EQ(ledger.limit(), ledger.samples());
    return ledger.samples();
  };
  EXPECT_EQ(samples(2, 19), 16u);
  EXPECT_EQ(samples(3, 19), 19u);
  EXPECT_EQ(samples(4, 19), 27u);
  EXPECT_EQ(samples(6, 19), 38u);
  EXPECT_EQ(samples(7, 19), 46u);
  EXPECT_EQ(samples(7, 16), 56u);
  EXPECT_EQ(samples(2, 5), 10u);
  rounds.drop_last = true;
  EXPECT_EQ(samples(3, 19), 24u);
  rounds.drop_last = false;
  // Behind a checkpoint: those that are left.
  rounds.first_epoch = 1;
  rounds.consumed = {{0, 8}};
  rounds.samples = 19 + 8 + 3 * 8;
  Ledger resumed(rounds, 19);
  EXPECT_EQ(resumed.limit(), 19u + 19 + 8);
  rounds.samples = 19 + 8;
  EXPECT_TRUE(Ledger(rounds, 19).all_handed());
}

}  // namespace
}  // namespace convoy::server::coordinator
