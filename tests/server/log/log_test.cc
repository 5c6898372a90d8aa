#include "server/log/log.h"

#include <gtest/gtest.h>

#include "server/log/segment.h"
#include "server/log/simulated_disk.h"
#include "tests/base/scratch.h"
#include "tests/server/log/records.h"

namespace convoy::server {
namespace {

using namespace test;
using namespace convoy::test;

TEST(Log, KeepsRecordsInOrder) {
  SimulatedDisk disk;
  {
    Log log(disk);
    EXPECT_EQ(log.first_index(), 1u);
    EXPECT_EQ(log.last_index(), 0u);
    EXPECT_EQ(log.epoch_of(0), 0u);
    fill(log, 1, 5, 1);
    fill(log, 6, 9, 4);
    log.append(10, 4, {});  // without bytes
    EXPECT_EQ(log.synced_index(), 0u);
    EXPECT_EQ(log.sync(), 10u);
    EXPECT_EQ(log.synced_index(), 10u);
    EXPECT_THROW(log.append(10, 4, {}), UsageError);
    EXPECT_THROW(log.append(12, 4, {}), UsageError);
    EXPECT_THROW(log.append(11, 3, {}), UsageError);
  }
  Log log(disk);
  EXPECT_EQ(log.last_index(), 10u);
  EXPECT_EQ(log.last_epoch(), 4u);
  EXPECT_EQ(log.synced_index(), 10u);
  EXPECT_FALSE(log.tail_was_cut());
  EXPECT_EQ(log.epoch_of(0), 0u);
  EXPECT_EQ(log.epoch_of(5), 1u);
  EXPECT_EQ(log.epoch_of(6), 4u);
  EXPECT_THROW(log.epoch_of(11), UsageError);
  const auto records = log.read(1, 1 << 20);
  ASSERT_EQ(records.size(), 10u);
  for (std::uint64_t i = 1; i <= 9; ++i) EXPECT_EQ(records[i - 1].bytes, content(i));
  EXPECT_TRUE(records[9].bytes.empty());
  EXPECT_TRUE(log.read(11, 100).empty());
  EXPECT_THROW(log.read(12, 100), UsageError);
  EXPECT_THROW(log.read(0, 100), UsageError);
}

// The limit counts bytes of commands: neither headers nor the zeros between records.
TEST(Log, ReadsUpToTheLimit) {
  SimulatedDisk disk;
  Log log(disk);
  for (std::uint64_t i = 1; i <= 20; ++i) log.append(i, 1, Bytes(i <= 10 ? 5 : 1000));
  EXPECT_EQ(log.read(1, 50).size(), 10u);
  EXPECT_EQ(log.read(1, 49).size(), 9u);
  EXPECT_EQ(log.read(1, 1050).size(), 11u);
  EXPECT_EQ(log.read(1, 1049).size(), 10u);
  EXPECT_EQ(log.read(1, 0).size(), 1u);
  EXPECT_EQ(log.read(15, 999).size(), 1u);  // larger than the limit: alone
  EXPECT_EQ(log.read(15, ~std::uint64_t{0}).size(), 6u);
}

TEST(Log, DividesIntoSegments) {
  SimulatedDisk disk;
  const LogOptions small{.segment_bytes = 500, .salt = 3};
  {
    Log log(disk, small);
    fill(log, 1, 100);
    EXPECT_GT(disk.list().size(), 10u);
    EXPECT_TRUE(holds(log, 100));
    EXPECT_EQ(log.read(57, 10)[0].index, 57u);
    log.sync();
    log.cut_before(50);
    EXPECT_LE(log.first_index(), 50u);
    EXPECT_GT(log.first_index(), 40u);
    EXPECT_TRUE(holds(log, 100));
    EXPECT_EQ(log.epoch_of(log.first_index() - 1), 1u);
    EXPECT_THROW(log.read(log.first_index() - 1, 10), UsageError);
    log.cut_before(1000);  // the last one stays
    EXPECT_EQ(log.last_index(), 100u);
    fill(log, 101, 103);
  }
  Log log(disk, small);
  EXPECT_TRUE(holds(log, 103));
  EXPECT_EQ(disk.used(), log.bytes());
  EXPECT_EQ(log.last_epoch(), 1u);
}

// A segment is full with the record that reaches its size, and the next one begins another.
TEST(Log, SegmentEndsWithTheRecordThatFillsIt) {
  SimulatedDisk disk;
  Log log(disk, {.segment_bytes = kSegmentHeader + kRecordHeader + 8});
  log.append(1, 1, Bytes(7));
  log.append(2, 1, Bytes(1));  // there was one byte left
  EXPECT_EQ(disk.list().size(), 1u);
  log.append(3, 1, Bytes(8));
  EXPECT_EQ(disk.list().size(), 2u);
  log.append(4, 1, Bytes(1));
  EXPECT_EQ(disk.list().size(), 3u);
}

TEST(Log, TruncatesAndGoesOn) {
  SimulatedDisk disk;
  const LogOptions small{.segment_bytes = 600};
  for (const std::uint64_t last : {99u, 60u, 37u, 1u, 0u}) {
    Log log(disk, small);
    fill(log, log.last_index() + 1, 100, 1 + log.last_epoch());
    log.sync();
    log.truncate_after(last);
    EXPECT_TRUE(holds(log, last)) << last;
    EXPECT_EQ(log.synced_index(), last);
    EXPECT_THROW(log.truncate_after(last + 1), UsageError);
    log.truncate_after(last);
    disk.power_cut(last);  // brings nothing back
    Log again(disk, small);
    EXPECT_TRUE(holds(again, last)) << last;
    EXPECT_LT(again.last_epoch(), 7u);
  }
}

TEST(Log, BeginsAgainBehindASnapshot) {
  SimulatedDisk disk;
  {
    Log log(disk, {.segment_bytes = 300});
    fill(log, 1, 30);
    log.reset(1000, 7);
    EXPECT_EQ(log.first_index(), 1001u);
    EXPECT_EQ(log.last_index(), 1000u);
    EXPECT_EQ(log.epoch_of(1000), 7u);
    EXPECT_THROW(log.append(1001, 6, {}), UsageError);
    EXPECT_EQ(disk.list().size(), 1u);
  }
  disk.power_cut(1);
  {
    Log log(disk, {.segment_bytes = 300});
    EXPECT_EQ(log.last_index(), 1000u);
    EXPECT_EQ(log.last_epoch(), 7u);
    fill(log, 1001, 1020, 8);
    EXPECT_TRUE(holds(log, 1020));
    log.reset(1000, 7);  // to where it began
    EXPECT_EQ(log.last_epoch(), 7u);
    fill(log, 1001, 1001, 9);
  }
  Log log(disk);
  EXPECT_TRUE(holds(log, 1001));
  EXPECT_EQ(log.epoch_of(1001), 9u);
}

// Opening takes little memory, whatever the size of segments and records.
TEST(Log, OpensInPieces) {
  SimulatedDisk disk;
  {
    Log log(disk);
    log.append(1, 1, Bytes(5 << 20));
    for (std::uint64_t i = 2; i < 2000; ++i) log.append(i, 1, Bytes(1000));
    log.sync();
  }
  Log log(disk);
  EXPECT_EQ(log.last_index(), 1999u);
  EXPECT_LE(disk.largest_read(), 256u << 10);
  EXPECT_EQ(log.read(1500, 2500).size(), 2u);
  EXPECT_LE(disk.largest_read(), 256u << 10);
  EXPECT_EQ(log.read(1, 1)[0].bytes.size(), 5u << 20);
}

// Files of others stand in the folder, too.
TEST(Log, LeavesOtherFilesAlone) {
  SimulatedDisk disk;
  const Bytes something(10);
  for (const char* name : {"log-1", "log-0000000000000000000x", "log-99999999999999999999",
                           "log-00000000000000000000", "snapshot"}) {
    disk.put(name, something);
  }
  {
    Log log(disk);
    fill(log, 1, 3);
  }
  EXPECT_EQ(Log(disk).last_index(), 3u);
  EXPECT_EQ(disk.list().size(), 6u);
}

}  // namespace
}  // namespace convoy::server
