#include "server/log/identity.h"

#include <gtest/gtest.h>

#include "server/log/simulated_disk.h"
#include "tests/base/scratch.h"
#include "tests/server/log/records.h"

namespace convoy::server {
namespace {

using namespace test;
using namespace convoy::test;

const FolderOwner kOwner{"job", 3, "node-a"};

FolderIdentity open(Disk& disk, const std::string& boot = "boot 1",
                    Durability durability = Durability::replicated) {
  return {disk, kOwner, boot, durability, 42};
}

TEST(Identity, KnowsItsFolder) {
  SimulatedDisk disk;
  EXPECT_TRUE(open(disk).fresh());
  FolderIdentity again(disk, kOwner, "boot 1", Durability::replicated, 43);
  EXPECT_FALSE(again.fresh());
  EXPECT_EQ(again.salt(), 42u);
  const auto message = [&](const FolderOwner& owner) {
    return message_of<UsageError>(
        [&] { FolderIdentity(disk, owner, "boot 1", Durability::replicated, 1); });
  };
  EXPECT_NE(message({"other", 3, "node-a"}).find("belongs to job 'job', not 'other'"),
            std::string::npos);
  EXPECT_NE(message({"job", 4, "node-a"}).find("shard '3', not '4'"), std::string::npos);
  EXPECT_NE(message({"job", 3, "node-b"}).find("node 'node-a', not 'node-b'"), std::string::npos);
}

TEST(Identity, IsWholeUntilThePowerIsCut) {
  SimulatedDisk disk;
  {
    FolderIdentity identity = open(disk);
    EXPECT_FALSE(identity.whole());
    identity.set_whole(true);
  }
  EXPECT_TRUE(open(disk).whole());  // killed, and started again
  EXPECT_FALSE(open(disk, "boot 2").whole());
  EXPECT_FALSE(open(disk, "boot 2").whole());  // stays so
  open(disk, "boot 2").set_whole(true);
  EXPECT_TRUE(open(disk, "boot 2").whole());
}

TEST(Identity, PowerCutsCostNothingThatWasSynced) {
  SimulatedDisk disk;
  open(disk, "boot 1", Durability::synced).set_whole(true);
  EXPECT_TRUE(open(disk, "boot 2", Durability::synced).whole());
  // What counts is what was promised before the power was cut.
  EXPECT_TRUE(open(disk, "boot 3", Durability::replicated).whole());
  EXPECT_FALSE(open(disk, "boot 4", Durability::synced).whole());
}

TEST(Identity, ClosedInOrder) {
  SimulatedDisk disk;
  {
    FolderIdentity identity = open(disk);
    identity.set_whole(true);
    Log log(disk);
    fill(log, 1, 5);
    EXPECT_THROW(identity.close(log), UsageError);
    log.sync();
    identity.close(log);
  }
  disk.power_cut(1);
  {
    FolderIdentity identity = open(disk, "boot 2");
    EXPECT_TRUE(identity.whole());
    Log log(disk);
    identity.opened(log);
    EXPECT_TRUE(identity.whole());
    identity.close(log);
    log.truncate_after(4);  // as if somebody had put an old copy of the folder back
  }
  FolderIdentity identity = open(disk, "boot 2");
  EXPECT_TRUE(identity.whole());
  identity.opened(Log(disk));
  EXPECT_FALSE(identity.whole());
}

TEST(Identity, SurvivesPowerCutsWhileItIsWritten) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedDisk disk;
    open(disk).set_whole(true);
    disk.create("partial-identity")->append(Bytes(20));
    disk.power_cut(seed);
    EXPECT_TRUE(open(disk).whole());
  }
}

TEST(Identity, EveryFlippedBitIsFound) {
  SimulatedDisk disk;
  open(disk);
  const std::size_t size = disk.get("identity").size();
  for (std::size_t at = 0; at < size; ++at) {
    disk.flip("identity", at, 1 << (at % 8));
    EXPECT_THROW(open(disk), Failure) << at;
    disk.flip("identity", at, 1 << (at % 8));
  }
  disk.put("identity", Bytes(3));
  EXPECT_THROW(open(disk), Failure);
}

TEST(Identity, BootIdIsThere) {
  EXPECT_GT(boot_id().size(), 30u);
  EXPECT_EQ(boot_id(), boot_id());
}

}  // namespace
}  // namespace convoy::server
