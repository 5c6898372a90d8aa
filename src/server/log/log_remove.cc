// Taking records away: at the end, at the front, all.
#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/log/log_state.h"

namespace convoy::server {

// Files are removed one by one, synced, so that a power cut leaves no gap between those that stay.

void Log::State::truncate_after(std::uint64_t index) {
  const std::lock_guard syncing(sync_mutex);
  const std::lock_guard appending(append_mutex);
  {
    const std::lock_guard lock(mutex);
    require_whole();
    if (index + 1 < first() || index > last) {
      throw UsageError("the log has records " + std::to_string(first()) + " to " +
                       std::to_string(last) + "; it can't end with " + std::to_string(index));
    }
    if (index == last) return;
  }
  all_or_broken([&] {
    while (segments.back()->key.first > index + 1) {
      disk.remove(segments.back()->name());
      disk.sync_names();
      const std::lock_guard lock(mutex);
      segments.pop_back();
    }
    LogSegment& segment = *segments.back();
    const std::uint64_t size = offset_of(segment, index + 1);
    segment.file->truncate(size);
    // Else a power cut could mix old records with those that are written now.
    segment.file->sync();
    const std::lock_guard lock(mutex);
    segment.size = segment.synced_size = size;
    while (!segment.places.empty() && segment.places.back().index > index) {
      segment.places.pop_back();
    }
    while (!epochs.empty() && epochs.back().first > index) epochs.pop_back();
    last = index;
    synced = std::min(synced, index);
  });
}

void Log::State::cut_before(std::uint64_t index) {
  const std::lock_guard syncing(sync_mutex);
  LogSegments removed;
  {
    const std::lock_guard appending(append_mutex);
    const std::lock_guard lock(mutex);
    require_whole();
    while (segments.size() > 1 && segments[1]->key.first <= index) {
      removed.push_back(segments.front());
      segments.erase(segments.begin());
    }
    const auto behind = std::find_if(epochs.begin(), epochs.end(),
                                     [&](const auto& epoch) { return epoch.first >= first(); });
    epochs.erase(epochs.begin(), behind);
  }
  all_or_broken([&] {
    for (const auto& segment : removed) {
      disk.remove(segment->name());
      disk.sync_names();
    }
  });
}

void Log::State::reset(std::uint64_t index, std::uint64_t epoch) {
  const std::lock_guard syncing(sync_mutex);
  const std::lock_guard appending(append_mutex);
  {
    const std::lock_guard lock(mutex);
    require_whole();
  }
  all_or_broken([&] {
    for (std::size_t i = segments.size(); i-- > 0;) {
      disk.remove(segments[i]->name());
      disk.sync_names();
    }
    auto segment = make_segment(index + 1, epoch);
    segment->file->sync();
    segment->synced_size = segment->size;
    disk.sync_names();
    const std::lock_guard lock(mutex);
    segments = {std::move(segment)};
    epochs.clear();
    last = synced = index;
  });
}

}  // namespace convoy::server
