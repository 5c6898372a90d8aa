// A node's disk in the simulation: what was written and not synced may be lost in a power cut.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "convoy/base/random.h"
#include "server/replication/log_shape.h"
#include "server/replication/types.h"

namespace convoy::server::replication::sim {

struct SavedState {
  Position at;
  Bytes bytes;  // empty: none
};

// What a disk holds.
struct Content {
  Position base;  // the log begins after it
  std::deque<Entry> log;
  SavedState snapshot;
  bool whole = true;

  Index last() const { return base.index + log.size(); }
  Position position() const;
  bool append(const Entry& entry);  // false if it doesn't follow
  void truncate_after(Index index);
  void cut_before(Index index);
  // Whether a log or snapshot has this command, or what came of it.
  bool holds(Index index, Epoch epoch) const;
};

class SimDisk {
 public:
  using Step = std::variant<Entry, Index>;  // append, or truncate after
  bool full = false;

  const Content& written() const { return written_; }
  const Content& durable() const { return durable_; }

  bool append(const Entry& entry);  // false: no room
  void truncate_after(Index index);
  void cut_before(Index index);
  void sync();
  void mark_whole(bool whole) { written_.whole = durable_.whole = whole; }
  // Written beside, synced and renamed: all at once.
  void save(SavedState state);
  // The same, and the log begins after it.
  void install(SavedState state);
  // Some of what wasn't synced is lost: all that came after a random moment.
  void cut_power(RandomStream& random);
  // What a node does when it opens the folder: a log that doesn't lead on from the snapshot goes.
  void recover();

 private:
  Content written_, durable_;
  std::vector<Step> unsynced_;
};

}  // namespace convoy::server::replication::sim
