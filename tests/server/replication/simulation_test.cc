// The replication protocol under faults, in virtual time. One schedule takes some milliseconds.
//   CONVOY_SCHEDULES=20000  runs so many instead of some dozen
//   CONVOY_TEST_ALL=1       runs a few hundred
//   CONVOY_SCHEDULE=17      runs this one and prints what happens
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>

#include "tests/base/effort.h"
#include "tests/server/replication/world.h"

namespace convoy::server::replication::sim {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ReplicationSimulation, HoldsInEverySchedule) {
  const std::uint64_t only = number("CONVOY_SCHEDULE", 0);
  const std::uint64_t schedules = number("CONVOY_SCHEDULES", convoy::test::all_cases() ? 200 : 60);
  std::size_t acknowledged = 0, excused = 0, faults = 0, transfers = 0, failed = 0;
  Epoch epochs = 0;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : schedules); ++seed) {
    const Outcome outcome = run({seed, Bug::none, only != 0});
    acknowledged += outcome.acknowledged;
    excused += outcome.excused;
    faults += outcome.faults;
    transfers += outcome.transfers;
    epochs += outcome.epochs;
    if (outcome.check.empty()) continue;
    ADD_FAILURE() << "CONVOY_SCHEDULE=" << seed << ": " << outcome.check << ": " << outcome.what;
    if (++failed == 5) break;
  }
  std::printf("%zu updates, %zu lost with power, %zu faults, %zu snapshots sent, %zu epochs\n",
              acknowledged, excused, faults, transfers, static_cast<std::size_t>(epochs));
  if (only != 0) return;
  // The schedules are what they should be: busy, and with all that can happen.
  EXPECT_GT(acknowledged, 50 * schedules);
  EXPECT_GT(epochs, 5 * schedules);
  EXPECT_GT(transfers, schedules / 4);
  if (schedules < 200) return;  // few of them cut the power of both members
  EXPECT_GT(excused, 0u);
  EXPECT_LT(excused, acknowledged / 100);
}

struct Planted {
  const char* name;
  Bug bug;
  const char* check;  // that has to find it
};

// Such parameters would be printed as bytes.
void PrintTo(const Planted& planted, std::ostream* to) { *to << planted.name; }

std::string name_of(const testing::TestParamInfo<Planted>& info) { return info.param.name; }

class ReplicationPlanted : public testing::TestWithParam<Planted> {};

TEST_P(ReplicationPlanted, IsFound) {
  for (std::uint64_t seed = 1; seed <= number("CONVOY_SCHEDULES", 200); ++seed) {
    const Outcome outcome = run({seed, GetParam().bug, false});
    if (outcome.check != GetParam().check) continue;
    std::printf("schedule %zu: %s: %s\n", static_cast<std::size_t>(seed), outcome.check.c_str(),
                outcome.what.c_str());
    return;
  }
  ADD_FAILURE() << "'" << GetParam().check << "' has found it in no schedule";
}

INSTANTIATE_TEST_SUITE_P(
    All, ReplicationPlanted,
    testing::Values(
        Planted{"AcknowledgesBeforeBackup", Bug::acknowledges_before_backup, "on all members"},
        Planted{"AcceptsOldEpoch", Bug::accepts_old_epoch, "one history"},
        Planted{"PromotesOutsider", Bug::promotes_outsider, "one history"},
        Planted{"KeepsRoleAfterRestart", Bug::keeps_role_after_restart, "one history"},
        Planted{"AdmitsWithoutJointMode", Bug::admits_without_joint_mode, "on all members"},
        Planted{"KeepsTailOnRejoin", Bug::keeps_tail_on_rejoin, "progress"},
        Planted{"ForgetsClientsInSnapshot", Bug::forgets_clients_in_snapshot, "applied once"},
        Planted{"AnnouncesUncommitted", Bug::announces_uncommitted, "one history"},
        Planted{"AcknowledgesBeforeSync", Bug::acknowledges_before_sync, "on all members"},
        Planted{"IgnoresFullDisk", Bug::ignores_full_disk, "on all members"},
        Planted{"StartsWithSmallerLog", Bug::starts_with_smaller_log, "one history"}),
    name_of);

}  // namespace
}  // namespace convoy::server::replication::sim
