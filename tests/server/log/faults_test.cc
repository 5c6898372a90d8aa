// What a log does when the disk fails: the power is cut, it is full, bytes change.
#include <gtest/gtest.h>

#include "convoy/base/random.h"
#include "server/log/segment.h"
#include "server/log/simulated_disk.h"
#include "tests/base/scratch.h"
#include "tests/server/log/records.h"

namespace convoy::server {
namespace {

using namespace test;
using namespace convoy::test;

constexpr LogOptions kSmall{.segment_bytes = 2000, .salt = 17};

// Whatever the power cut takes: all that was synced is there, and nothing that wasn't written.
TEST(Faults, PowerCutTakesOnlyWhatWasNotSynced) {
  std::size_t cut_tails = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SimulatedDisk disk;
    RandomStream random(seed);
    std::uint64_t synced = 0;
    std::uint64_t last = 0;
    for (int power = 0; power < 3; ++power) {
      Log log(disk, kSmall);
      ASSERT_GE(log.last_index(), synced) << seed;
      ASSERT_LE(log.last_index(), last) << seed;
      ASSERT_TRUE(holds(log, log.last_index())) << seed;
      cut_tails += log.tail_was_cut();
      // What it has after opening is synced.
      ASSERT_EQ(log.synced_index(), log.last_index()) << seed;
      last = log.last_index();
      for (std::uint64_t steps = random.below(40); steps > 0; --steps) {
        switch (random.below(8)) {
          case 0:
            synced = log.sync();
            break;
          case 1:
            if (last < log.first_index() + 20) break;
            last -= random.below(10);
            log.truncate_after(last);
            synced = std::min(synced, last);
            break;
          case 2:
            log.cut_before(last - std::min<std::uint64_t>(last, random.below(20)));
            break;
          default:
            log.append(last + 1, 1, content(last + 1));
            ++last;
        }
      }
      synced = std::max(synced, log.synced_index());
      disk.power_cut(random());
    }
  }
  EXPECT_GT(cut_tails, 100u);
}

// At every byte: the records before it are there, and the log goes on.
TEST(Faults, TailThatIsCutShort) {
  SimulatedDisk disk;
  std::vector<std::uint64_t> ends = {kSegmentHeader};
  {
    Log log(disk);
    for (std::uint64_t i = 1; i <= 8; ++i) {
      log.append(i, 1, content(i));
      ends.push_back(log.bytes());
    }
  }
  const std::string name = segment_name(1);
  const Bytes bytes = disk.get(name);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    SimulatedDisk cut;
    cut.put(name, std::span(bytes).first(size));
    std::uint64_t whole = 0;
    while (whole < 8 && ends[whole + 1] <= size) ++whole;
    {
      Log log(cut);
      ASSERT_TRUE(holds(log, whole)) << size;
      const bool at_end = size >= ends[whole] && size < aligned(ends[whole]) + 1;
      ASSERT_EQ(log.tail_was_cut(), size < ends[0] || !at_end) << size;
      fill(log, whole + 1, 9);
    }
    ASSERT_TRUE(holds(Log(cut), 9)) << size;
  }
}

// Every flipped bit of what was synced is found; none costs a record silently.
TEST(Faults, DamageInTheMiddle) {
  SimulatedDisk disk;
  std::uint64_t end = 0;  // of the last record
  {
    Log log(disk);
    fill(log, 1, 4);
    end = log.bytes();
    log.sync();
    fill(log, 5, 6);
    log.sync();
  }
  const std::string name = segment_name(1);
  std::uint64_t found = 0;
  for (std::uint64_t at = 0; at < end; ++at) {
    disk.flip(name, at, 1 << (at % 8));
    const std::string message = message_of<Failure>([&] {
      // Only zeros between records don't matter.
      EXPECT_TRUE(holds(Log(disk), 6)) << at;
    });
    found += !message.empty();
    if (!message.empty()) {
      EXPECT_NE(message.find("is damaged: record "), std::string::npos) << message;
    }
    disk.flip(name, at, 1 << (at % 8));
  }
  EXPECT_GT(found, end - 4 * 8);
  EXPECT_TRUE(holds(Log(disk), 6));
}

TEST(Faults, SegmentThatIsMissing) {
  SimulatedDisk disk;
  {
    Log log(disk, kSmall);
    fill(log, 1, 100);
    log.sync();
  }
  const auto names = disk.list();
  ASSERT_GT(names.size(), 3u);
  const Bytes second = disk.get(names[1]);
  disk.remove(names[1]);
  EXPECT_NE(message_of<Failure>([&] { Log log(disk, kSmall); }), "");
  disk.put(names[1], second);
  EXPECT_TRUE(holds(Log(disk, kSmall), 100));
  // One of another folder in its place is no part of this log.
  SimulatedDisk other;
  {
    Log log(other, {.segment_bytes = 2000, .salt = 18});
    fill(log, 1, 100);
  }
  disk.put(names[1], other.get(names[1]));
  EXPECT_NE(message_of<Failure>([&] { Log log(disk, kSmall); }), "");
}

// Bytes that a client sent, which look like records, are none.
TEST(Faults, RecordsInsideOfRecords) {
  SimulatedDisk disk;
  std::uint64_t end = 0;
  {
    Log log(disk, kSmall);
    RecordHeader forged;
    forged.index = 50;
    forged.synced = 40;
    Bytes bytes;
    for (int i = 0; i < 4; ++i) {
      const auto header = record_header(forged, {.salt = 0, .first = 1});
      bytes.insert(bytes.end(), header.begin(), header.end());
    }
    log.append(1, 1, content(1));
    end = log.bytes();
    log.append(2, 1, bytes);
  }
  disk.flip(segment_name(1), end + 20, 1);  // in record 2's header, which was never synced
  Log log(disk, kSmall);
  EXPECT_TRUE(log.tail_was_cut());
  EXPECT_TRUE(holds(log, 1));
}

TEST(Faults, FullDiskLosesNothingAndGoesOn) {
  SimulatedDisk disk;
  Log log(disk, kSmall);
  fill(log, 1, 20);
  // Room for none, or for part, of what comes: also where a segment begins.
  for (std::uint64_t room = 0; room < 400; room += 13) {
    const std::uint64_t last = log.last_index();
    disk.set_capacity(disk.used() + room);
    std::uint64_t written = last;
    EXPECT_NE(message_of<DiskFull>([&] {
                while (true) {
                  log.append(written + 1, 1, content(written + 1));
                  ++written;
                }
              }),
              "");
    EXPECT_TRUE(holds(log, written)) << room;
    EXPECT_EQ(log.sync(), written);  // there is no room for its mark, which does no harm
    disk.set_capacity(~std::uint64_t{0});
    fill(log, written + 1, written + 1);
    EXPECT_TRUE(holds(log, written + 1)) << room;
  }
  const std::uint64_t last = log.last_index();
  EXPECT_TRUE(holds(Log(disk, kSmall), last));
}

TEST(Faults, ExactlyWhatFits) {
  SimulatedDisk disk;
  Log log(disk);
  disk.set_capacity(disk.used() + kRecordHeader + 16);
  EXPECT_THROW(log.append(1, 1, Bytes(17)), DiskFull);
  log.append(1, 1, Bytes(16));
  EXPECT_THROW(log.append(2, 1, {}), DiskFull);
  EXPECT_EQ(log.read(1, 100)[0].bytes.size(), 16u);
}

TEST(Faults, NothingGoesAfterAFailedSync) {
  SimulatedDisk disk;
  Log log(disk);
  fill(log, 1, 3);
  disk.fail_syncs();
  EXPECT_THROW(log.sync(), Failure);
  EXPECT_NE(message_of<Failure>([&] {
              log.append(4, 1, {});
            }).find("the log can't be used any more: cannot fdatasync"),
            std::string::npos);
  EXPECT_THROW(log.sync(), Failure);
  EXPECT_THROW(log.read(1, 1), Failure);
  EXPECT_EQ(log.synced_index(), 0u);
}

TEST(Faults, DamageThatComesLaterIsFoundByRead) {
  SimulatedDisk disk;
  Log log(disk);
  fill(log, 1, 5);
  disk.flip(segment_name(1), kSegmentHeader + kRecordHeader + 2, 4);
  EXPECT_NE(message_of<Failure>([&] { log.read(1, 1000); }).find("byte 64"), std::string::npos);
}

}  // namespace
}  // namespace convoy::server
