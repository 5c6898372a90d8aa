// The files of one node of a shard: its log, its snapshots and whose they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/log/disk.h"
#include "server/log/identity.h"
#include "server/log/log.h"
#include "server/log/snapshots.h"
#include "server/replication/log_shape.h"
#include "server/state/machine.h"

namespace convoy::server::host {

struct FolderSettings {
  FolderOwner owner;
  std::string boot;
  server::Durability durability = server::Durability::replicated;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  std::uint64_t random = 0;  // any number that no client knows
};

// Threads: each part as its own header says.
class NodeFolder {
 public:
  // Opens what is there, or begins. The machine becomes the newest snapshot that is whole, and the
  // log what leads on from it: what is damaged, or leads from nowhere, is set aside, and the node
  // is no longer whole then. `lines` says so. Throws UsageError for another owner's folder, Failure
  // when the disk can't be used.
  NodeFolder(std::unique_ptr<Disk> disk, const FolderSettings& settings, StateMachine& machine,
             std::vector<std::string>& lines);

  Disk& disk() { return *disk_; }
  FolderIdentity& identity() { return *identity_; }
  Log& log() const { return *log_; }
  Snapshots& snapshots() { return *snapshots_; }

  // As it was opened.
  const replication::LogShape& shape() const { return shape_; }
  SnapshotId loaded() const { return loaded_; }  // {0, 0}: none

  // The node has all that its primary has: what was set aside is of no use any more.
  void set_whole();
  // Whether so many bytes more can be written.
  bool has_room(std::uint64_t bytes);

 private:
  bool open_log(const LogOptions& options, std::vector<std::string>& lines);
  void begin_after(const SnapshotId& id);

  std::unique_ptr<Disk> disk_;
  std::optional<FolderIdentity> identity_;
  std::unique_ptr<Log> log_;
  std::optional<Snapshots> snapshots_;
  replication::LogShape shape_;
  SnapshotId loaded_;
};

}  // namespace convoy::server::host
