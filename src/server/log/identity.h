// Whose folder this is, and whether everything is still in it.
#pragma once

#include <cstdint>
#include <string>

#include "server/log/disk.h"
#include "server/log/log.h"

namespace convoy::server {

// When a change counts as stored on a node.
enum class Durability : std::uint8_t {
  replicated = 0,  // when it is in the memory of two: a power cut of both may lose the last ones
  synced = 1,      // when it would survive a power cut
};

struct FolderOwner {
  std::string job;
  std::uint32_t shard = 0;
  std::string node;
};

// The number of the kernel's start, which changes when the power was cut: boot_id of Linux.
std::string boot_id();

// The file "identity" of a node's folder (docs/server-format.md). One thread at a time.
class FolderIdentity {
 public:
  // Opens it, or makes it for a folder that has none; `random` is any number that no client knows.
  // Throws UsageError naming the difference when the folder is another owner's, Failure when the
  // file is damaged.
  FolderIdentity(Disk& disk, const FolderOwner& owner, const std::string& boot,
                 Durability durability, std::uint64_t random);

  bool fresh() const { return fresh_; }         // it was made just now
  std::uint64_t salt() const { return salt_; }  // LogOptions::salt

  // Compares with the log what was said about it when the folder was closed.
  void opened(const Log& log);

  // Whether everything that this node ever acknowledged is still here. A fresh folder's node has to
  // say so itself, since it may be that the disk was lost. Not so after a power cut, unless the
  // folder was closed before or nothing was acknowledged unsynced; stays so until set_whole(true):
  // when the node has all that its primary has.
  bool whole() const { return whole_; }
  void set_whole(bool whole);

  // The process ends in order, and the log is synced.
  void close(const Log& log);

 private:
  void save(bool closed, std::uint64_t last_index);

  Disk& disk_;
  FolderOwner owner_;
  std::string boot_;
  Durability durability_;
  std::uint64_t salt_ = 0;
  bool fresh_ = false;
  bool whole_ = false;
  bool was_closed_ = false;
  std::uint64_t closed_at_ = 0;
};

}  // namespace convoy::server
