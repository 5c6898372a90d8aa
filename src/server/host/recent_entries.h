// The last commands of a node's log, in memory.
#pragma once

#include <cstdint>
#include <deque>

#include "server/replication/types.h"

namespace convoy::server::host {

// Consecutive entries, of which the oldest are dropped when nobody needs them from memory any more.
class RecentEntries {
 public:
  // None; the next one is `last` + 1.
  explicit RecentEntries(replication::Index last = 0) : next_(last + 1) {}

  // REQUIRES: it follows the last one.
  void append(const replication::Entry& entry);
  void truncate_after(replication::Index index);
  void drop_before(replication::Index index);
  void reset(replication::Index last) { *this = RecentEntries(last); }

  // Null: not here.
  const replication::Entry* find(replication::Index index) const;
  // Of the first that is here; the next one's if there is none.
  replication::Index first() const { return next_ - entries_.size(); }
  replication::Index last() const { return next_ - 1; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::deque<replication::Entry> entries_;
  replication::Index next_;
  std::uint64_t bytes_ = 0;
};

}  // namespace convoy::server::host
