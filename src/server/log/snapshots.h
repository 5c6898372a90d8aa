// Snapshots of one node's state, as files beside its log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/log/disk.h"
#include "server/state/machine.h"

namespace convoy::server {

struct SnapshotId {
  std::uint64_t index = 0;  // of the last command that it holds
  std::uint64_t epoch = 0;  // of that command
  auto operator<=>(const SnapshotId&) const = default;
};

// Files "snapshot-<index>-<epoch>" (docs/server-format.md), which are there whole or not at all.
// Thread-safe; one snapshot is written at a time.
//
// Keep two: the log is then cut before the older one's index + 1, and a newer one that turns out to
// be damaged costs nothing but time.
class Snapshots {
 public:
  explicit Snapshots(Disk& disk);  // removes what was left half written

  std::vector<SnapshotId> list() const;  // ascending

  // Saves what `save` writes; on the disk when the call returns. May take long, so it belongs in a
  // thread of its own: StateMachine::image() is what that thread gets. Throws what the disk throws;
  // nothing is left then. One that is there already stays.
  void write(const SnapshotId& id, const std::function<void(SnapshotSink&)>& save);

  // Gives `load` what `save` wrote, checked piece by piece before it is given. Throws Failure
  // naming the file when it is damaged or not there, also when the damage is behind what `load`
  // reads.
  void read(const SnapshotId& id, const std::function<void(SnapshotSource&)>& load) const;

  // Loads the newest that is whole. Those that aren't are named in `damaged`, one line each.
  std::optional<SnapshotId> load_newest(StateMachine& machine,
                                        std::vector<std::string>& damaged) const;

  void keep_newest(std::size_t count);  // removes the others
  void remove(const SnapshotId& id);
  void remove_all();

  // The bytes of a file, for a node that has to catch up.
  std::uint64_t size(const SnapshotId& id) const;
  Bytes piece(const SnapshotId& id, std::uint64_t offset, std::uint64_t limit) const;

 private:
  Disk& disk_;
};

// A snapshot that comes from another node in pieces of piece(). Nothing is left of it unless
// commit() returns.
class SnapshotReceiver {
 public:
  SnapshotReceiver(Disk& disk, const SnapshotId& id);
  ~SnapshotReceiver();
  SnapshotReceiver(const SnapshotReceiver&) = delete;
  SnapshotReceiver& operator=(const SnapshotReceiver&) = delete;

  std::uint64_t size() const;  // bytes that have come
  void append(std::span<const std::byte> piece);
  // Checks and syncs it and gives it its name. Throws Failure when a piece is missing or damaged.
  void commit();

 private:
  Disk& disk_;
  SnapshotId id_;
  std::unique_ptr<DiskFile> file_;
};

}  // namespace convoy::server
