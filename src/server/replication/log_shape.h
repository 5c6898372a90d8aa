// What a node remembers of its log: which epoch each command is of, and how large it is.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "server/replication/types.h"

namespace convoy::server::replication {

// Commands of one epoch that follow each other.
struct EpochRun {
  Index begin = 0;
  Epoch epoch = 0;
  bool operator==(const EpochRun&) const = default;
};

class LogShape {
 public:
  struct Item {
    Epoch epoch = 0;
    std::uint64_t bytes = 0;
  };

  // Nothing but `base`, the command before the first one that is there: what a snapshot ends with.
  explicit LogShape(Position base = {}) : base_(base) {}

  Position base() const { return base_; }
  Index first() const { return base_.index + 1; }
  Index last() const { return base_.index + items_.size(); }
  Position position() const { return {epoch_of(last()).value_or(0), last()}; }
  // Of a command that is there, or of the base.
  std::optional<Epoch> epoch_of(Index index) const;
  // REQUIRES: first() <= index <= last()
  std::uint64_t bytes_of(Index index) const { return items_[index - first()].bytes; }

  void append(Item item) { items_.push_back(item); }
  void truncate_after(Index index);  // no effect on a log that ends before
  void cut_before(Index index);      // `index` becomes the first, or last() + 1 if that is less

  // The epochs from the base (which is the begin of the first run) to the last command.
  std::vector<EpochRun> runs() const;

 private:
  Position base_;
  std::deque<Item> items_;
};

// The last command, or base, that a log shares with another one, given as its runs and the index of
// its last command; nothing when there is none. Logs of a shard that share a command share all
// before it, since an epoch has one primary, which gives an index once.
std::optional<Index> last_common(const LogShape& log, std::span<const EpochRun> runs, Index last);

}  // namespace convoy::server::replication
