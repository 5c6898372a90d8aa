#include "server/log/snapshots.h"

#include <gtest/gtest.h>

#include "server/log/simulated_disk.h"
#include "server/state/shard_state.h"
#include "tests/server/log/records.h"
#include "tests/server/state/shard.h"

namespace convoy::server {
namespace {

using namespace test;

// A state of so many bytes.
Bytes state(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  return bytes;
}

void write(Snapshots& snapshots, const SnapshotId& id, const Bytes& bytes) {
  snapshots.write(id, [&](SnapshotSink& sink) {
    for (std::size_t at = 0; at < bytes.size(); at += 70001) {
      sink.write(std::span(bytes).subspan(at, std::min<std::size_t>(70001, bytes.size() - at)));
    }
  });
}

Bytes read(const Snapshots& snapshots, const SnapshotId& id, std::size_t size) {
  Bytes bytes(size);
  snapshots.read(id, [&](SnapshotSource& source) { source.read(bytes); });
  return bytes;
}

TEST(Snapshots, GiveBackWhatWasWritten) {
  SimulatedDisk disk;
  Snapshots snapshots(disk);
  std::uint64_t index = 0;
  constexpr std::size_t kPiece = 1 << 20;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1,
                                 2 * kPiece, 2 * kPiece + 77}) {
    const SnapshotId id{++index, 3};
    write(snapshots, id, state(size));
    EXPECT_EQ(read(snapshots, id, size), state(size));
    EXPECT_THROW(read(snapshots, id, size + 1), Failure);
  }
  EXPECT_EQ(snapshots.list().size(), 7u);
  EXPECT_EQ(snapshots.list().back(), (SnapshotId{7, 3}));
  snapshots.keep_newest(2);
  EXPECT_EQ(snapshots.list(), (std::vector<SnapshotId>{{6, 3}, {7, 3}}));
  snapshots.keep_newest(2);
  EXPECT_EQ(snapshots.list().size(), 2u);
  EXPECT_THROW(read(snapshots, {1, 3}, 0), Failure);
}

TEST(Snapshots, AreThereWholeOrNotAtAll) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedDisk disk;
    Snapshots snapshots(disk);
    write(snapshots, {1, 1}, state(5000));
    disk.set_capacity(disk.used() + seed * 150);
    EXPECT_THROW(write(snapshots, {2, 1}, state(10000)), DiskFull);
    EXPECT_EQ(disk.list().size(), 1u);
    disk.set_capacity(~std::uint64_t{0});
    // Killed while it was written, then the power is cut.
    disk.create("partial-snapshot")->append(state(300));
    if (seed % 2 == 0) disk.power_cut(seed);
    Snapshots later(disk);
    EXPECT_EQ(disk.list().size(), 1u);
    write(later, {2, 1}, state(10000));
    disk.power_cut(seed);
    EXPECT_EQ(read(Snapshots(disk), {1, 1}, 5000), state(5000));
    EXPECT_EQ(read(Snapshots(disk), {2, 1}, 10000), state(10000));
  }
}

TEST(Snapshots, EveryFlippedBitIsFound) {
  SimulatedDisk disk;
  Snapshots snapshots(disk);
  write(snapshots, {1, 1}, state(200));
  const std::string name = disk.list()[0];
  const Bytes bytes = disk.get(name);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    disk.flip(name, at, 1 << (at % 8));
    EXPECT_THROW(read(snapshots, {1, 1}, 200), Failure) << at;
    disk.flip(name, at, 1 << (at % 8));
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    disk.put(name, std::span(bytes).first(size));
    EXPECT_THROW(read(snapshots, {1, 1}, 200), Failure) << size;
  }
  Bytes longer = bytes;
  longer.push_back({});
  disk.put(name, longer);
  EXPECT_THROW(read(snapshots, {1, 1}, 200), Failure);
}

TEST(Snapshots, OfAShardAndTheLogBehindIt) {
  SimulatedDisk disk;
  Snapshots snapshots(disk);
  Log log(disk, {.segment_bytes = 200});
  ShardState shard;
  const auto next = [&](const Bytes& command) {
    log.append(shard.applied() + 1, 1, command);
    return give(shard, command);
  };
  const auto snapshot = [&] {
    const auto image = shard.image();
    snapshots.write({image->index(), log.epoch_of(image->index())},
                    [&](SnapshotSink& sink) { image->save(sink); });
  };
  next(define_command(definition({slice("w", 3)})));
  next(initialize(0, {0, 0, 0}));
  next(join_command(1, ""));
  for (std::uint64_t i = 1; i <= 30; ++i) {
    ASSERT_EQ(next(push(1, i, i - 1, {1, 2, 3})).status, Status::done);
    if (i % 10 == 0) snapshot();
  }
  snapshots.keep_newest(2);
  log.cut_before(snapshots.list().front().index + 1);
  EXPECT_GT(log.first_index(), 10u);
  next(push(1, 31, 30, {1, 2, 3}));
  // The newest is damaged: the one before it and the log lead to the same state.
  for (const bool damaged : {false, true}) {
    if (damaged) disk.flip(disk.list().back(), 100, 1);
    ShardState again;
    std::vector<std::string> reasons;
    const auto id = Snapshots(disk).load_newest(again, reasons);
    ASSERT_TRUE(id.has_value());
    EXPECT_EQ(id->index, damaged ? 23u : 33u);
    EXPECT_EQ(reasons.size(), damaged ? 1u : 0u);
    for (const LogRecord& record : log.read(id->index + 1, 1 << 20)) {
      again.apply(record.index, record.bytes);
    }
    EXPECT_EQ(saved(again), saved(shard));
  }
  ShardState none;
  std::vector<std::string> reasons;
  SimulatedDisk empty;
  EXPECT_FALSE(Snapshots(empty).load_newest(none, reasons).has_value());
}

TEST(Snapshots, TravelInPieces) {
  SimulatedDisk from;
  Snapshots snapshots(from);
  write(snapshots, {9, 2}, state(3000));
  SimulatedDisk to;
  const auto receive = [&](std::uint64_t pieces) {
    SnapshotReceiver receiver(to, {9, 2});
    for (std::uint64_t i = 0; i < pieces; ++i) {
      receiver.append(snapshots.piece({9, 2}, receiver.size(), 1000));
    }
    receiver.commit();
  };
  const std::uint64_t size = snapshots.size({9, 2});
  EXPECT_EQ(size, 64 + 16 + 3000 + 16u);
  EXPECT_TRUE(snapshots.piece({9, 2}, size, 10).empty());
  EXPECT_TRUE(snapshots.piece({9, 2}, size + 5, 10).empty());
  EXPECT_THROW(receive(3), Failure);
  EXPECT_TRUE(to.list().empty());
  receive(4);
  EXPECT_EQ(read(Snapshots(to), {9, 2}, 3000), state(3000));
}

}  // namespace
}  // namespace convoy::server
