// The parts of Log that several units share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/log/log.h"
#include "server/log/segment.h"

namespace convoy::server {

// Between two places of a segment that are kept in memory, to find records.
inline constexpr std::uint64_t kBetweenPlaces = std::uint64_t{64} << 10;

struct LogPlace {
  std::uint64_t index;
  std::uint64_t offset;
};

struct LogSegment {
  SegmentKey key;
  std::uint64_t epoch_before = 0;  // of the record before its first
  std::unique_ptr<DiskFile> file;
  std::uint64_t size = 0;         // of what is whole
  std::uint64_t synced_size = 0;  // of what would survive a power cut
  std::vector<LogPlace> places;   // ascending; of the first record, and some others

  std::string name() const { return segment_name(key.first); }
  void add_place(std::uint64_t index, std::uint64_t offset) {
    if (places.empty() || offset - places.back().offset >= kBetweenPlaces) {
      places.push_back({index, offset});
    }
  }
};

using LogSegments = std::vector<std::shared_ptr<LogSegment>>;

// Locks are taken in this order: sync, append, data. What changes segments holds all three;
// append() the last two, and sync() while it waits for the disk only the first.
struct Log::State {
  State(Disk& disk, const LogOptions& options) : disk(disk), options(options) {}

  Disk& disk;
  const LogOptions options;
  std::mutex sync_mutex;
  std::mutex append_mutex;
  mutable std::mutex mutex;  // of everything below
  LogSegments segments;      // never empty, once the log is open
  std::uint64_t last = 0;
  std::uint64_t synced = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> epochs;  // first index, epoch; ascending
  bool names_changed = false;
  bool tail_cut = false;
  std::string broken;  // why nothing goes any more, or empty

  std::uint64_t first() const { return segments.front()->key.first; }
  std::uint64_t epoch_of_last() const {
    return epochs.empty() ? segments.front()->epoch_before : epochs.back().second;
  }
  void require_whole() const {
    if (!broken.empty()) throw Failure("the log can't be used any more: " + broken);
  }
  // Calls what must not be left half done.
  template <typename Call>
  void all_or_broken(const Call& call) {
    try {
      call();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      broken = error.what();
      throw;
    }
  }

  void open();
  // Reads the segment; false when it isn't whole. `known` becomes what its headers say to be
  // synced.
  bool scan(LogSegment& segment, std::uint64_t& known);
  void cut_tail(std::size_t segment, const LogSegments& all, std::uint64_t known);
  std::shared_ptr<LogSegment> make_segment(std::uint64_t first, std::uint64_t epoch_before);
  void add_segment(std::shared_ptr<LogSegment> segment);
  void write(const RecordHeader& header, std::span<const std::byte> bytes);
  void write_mark();
  std::uint64_t offset_of(const LogSegment& segment, std::uint64_t index) const;
  std::uint64_t sync();
  void truncate_after(std::uint64_t index);
  void cut_before(std::uint64_t index);
  void reset(std::uint64_t index, std::uint64_t epoch);
};

}  // namespace convoy::server
