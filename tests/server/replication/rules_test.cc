#include "server/replication/rules.h"

#include <gtest/gtest.h>

namespace convoy::server::replication {
namespace {

LogShape log_of(Position base, const std::vector<Epoch>& epochs) {
  LogShape log(base);
  for (const Epoch epoch : epochs) log.append({epoch, 1});
  return log;
}

TEST(LogShape, KnowsItsEpochs) {
  LogShape log = log_of({1, 4}, {1, 2, 2, 5});
  EXPECT_EQ(log.runs(), (std::vector<EpochRun>{{4, 1}, {6, 2}, {8, 5}}));
  EXPECT_EQ(log.position(), (Position{5, 8}));
  EXPECT_EQ(log.epoch_of(4), 1u);
  EXPECT_EQ(log.epoch_of(3), std::nullopt);
  EXPECT_EQ(log.epoch_of(9), std::nullopt);
  log.cut_before(7);
  EXPECT_EQ(log.base(), (Position{2, 6}));
  log.truncate_after(7);
  EXPECT_EQ(log.position(), (Position{2, 7}));
  log.truncate_after(2);
  EXPECT_EQ(log.position(), (Position{2, 6}));
}

TEST(Rules, AJoinerKeepsWhatBothLogsShare) {
  const Rules rules;
  const auto kept = [&](const LogShape& primary, const LogShape& joiner, Index applied) {
    const auto runs = joiner.runs();
    return rules.kept(primary, runs, joiner.last(), applied);
  };
  const LogShape primary = log_of({0, 0}, {1, 1, 1, 3, 3});
  EXPECT_EQ(kept(primary, log_of({0, 0}, {}), 0), 0u);
  EXPECT_EQ(kept(primary, log_of({0, 0}, {1, 1}), 0), 2u);
  EXPECT_EQ(kept(primary, log_of({0, 0}, {1, 1, 1, 2, 2, 2}), 1), 3u);  // a tail of its own
  EXPECT_EQ(kept(primary, log_of({0, 0}, {1, 1, 1, 2, 2, 2}), 4), std::nullopt);  // and applied
  EXPECT_EQ(kept(primary, log_of({1, 2}, {1, 3}), 2), 4u);
  const LogShape cut = log_of({1, 3}, {3, 3});
  EXPECT_EQ(kept(cut, log_of({0, 0}, {1, 1}), 0), std::nullopt);  // its next one isn't there
  EXPECT_EQ(kept(cut, log_of({0, 0}, {1, 1, 1}), 0), 3u);
}

constexpr Member kPrimary{1, 10}, kBackup{2, 20}, kSpare{3, 30};
const Configuration kPair{0, 7, kPrimary, kBackup};
const Configuration kAlone{0, 7, kPrimary, {}};

Standing alive(Member member, bool able = true) { return {member, true, true, able, {}, true}; }
Standing restarted(Member member, Position position, bool whole) {
  return {{member.node, member.incarnation + 1}, true, true, true, position, whole};
}
Standing silent(Member member) { return {member, false, false, true, {}, true}; }

// The node that is to serve alone; 0: nobody new.
std::uint64_t next(const Configuration& current, const std::vector<Standing>& nodes,
                   bool accept_loss = false) {
  const auto next = Rules().successor(current, nodes, accept_loss);
  if (!next) return 0;
  EXPECT_EQ(next->epoch, current.epoch + 1);
  EXPECT_FALSE(next->backup);
  return next->primary.node;
}

TEST(Rules, TheBackupFollowsAPrimaryThatIsGone) {
  EXPECT_EQ(next(kPair, {alive(kPrimary), alive(kBackup)}), 0u);
  EXPECT_EQ(next(kPair, {silent(kPrimary), alive(kBackup)}), 2u);
  EXPECT_EQ(next(kPair, {alive(kPrimary, false), alive(kBackup)}), 2u);
  EXPECT_EQ(next(kPair, {restarted(kPrimary, {7, 9}, true), alive(kBackup)}), 2u);
  EXPECT_EQ(next(kPair, {silent(kPrimary), alive(kBackup, false)}), 0u);
  // Nobody else does.
  EXPECT_EQ(next(kPair, {silent(kPrimary), silent(kBackup), alive(kSpare)}), 0u);
  EXPECT_EQ(next(kAlone, {silent(kPrimary), alive(kBackup)}), 0u);
}

TEST(Rules, AColdStartTakesWhatIsSureToHaveAll) {
  const Standing whole = restarted(kPrimary, {7, 9}, true);
  EXPECT_EQ(next(kPair, {whole, silent(kBackup)}), 1u);
  EXPECT_EQ(next(kPair, {whole, restarted(kBackup, {7, 12}, false)}), 1u);
  const Standing cut = restarted(kPrimary, {7, 9}, false);
  EXPECT_EQ(next(kPair, {cut, silent(kBackup)}), 0u);
  EXPECT_EQ(next(kPair, {cut, silent(kBackup)}, true), 1u);
  EXPECT_EQ(next(kPair, {cut, restarted(kBackup, {7, 12}, false)}), 2u);
  EXPECT_EQ(next(kPair, {cut, restarted(kBackup, {6, 12}, false)}), 1u);
  EXPECT_EQ(next(kPair, {cut, alive(kBackup, false)}, true), 0u);  // who lives may come back
  EXPECT_EQ(next(kAlone, {cut}), 0u);
  EXPECT_EQ(next(kAlone, {cut}, true), 1u);
  EXPECT_EQ(next(kAlone, {whole}), 1u);
}

}  // namespace
}  // namespace convoy::server::replication
