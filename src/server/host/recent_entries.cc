#include "server/host/recent_entries.h"

#include <algorithm>

namespace convoy::server::host {

using replication::Entry;
using replication::Index;

void RecentEntries::append(const Entry& entry) {
  entries_.push_back(entry);
  ++next_;
  bytes_ += entry.command->size();
}

void RecentEntries::truncate_after(Index index) {
  while (!entries_.empty() && entries_.back().index > index) {
    bytes_ -= entries_.back().command->size();
    entries_.pop_back();
  }
  next_ = std::min(next_, index + 1);
}

void RecentEntries::drop_before(Index index) {
  while (!entries_.empty() && entries_.front().index < index) {
    bytes_ -= entries_.front().command->size();
    entries_.pop_front();
  }
}

const Entry* RecentEntries::find(Index index) const {
  if (index < first() || index >= next_) return nullptr;
  return &entries_[index - first()];
}

}  // namespace convoy::server::host
