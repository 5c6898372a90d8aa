#include "server/log/log.h"

#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "server/log/log_state.h"

namespace convoy::server {

std::shared_ptr<LogSegment> Log::State::make_segment(std::uint64_t first,
                                                     std::uint64_t epoch_before) {
  auto segment = std::make_shared<LogSegment>();
  segment->key = {options.salt, first};
  segment->epoch_before = epoch_before;
  segment->file = disk.create(segment->name());
  try {
    segment->file->append(segment_header(segment->key, epoch_before));
  } catch (...) {
    all_or_broken([&] { disk.remove(segment->name()); });
    throw;
  }
  segment->size = kSegmentHeader;
  return segment;
}

void Log::State::add_segment(std::shared_ptr<LogSegment> segment) {
  const std::lock_guard lock(mutex);
  segments.push_back(std::move(segment));
  names_changed = true;
}

// Writes a record behind the last one, or nothing. Only with append_mutex.
void Log::State::write(const RecordHeader& header, std::span<const std::byte> bytes) {
  LogSegment& segment = *segments.back();
  const std::uint64_t offset = aligned(segment.size);
  // The zeros up to its place come with the record's header.
  Writer first;
  first.room(offset - segment.size);
  first.raw(record_header(header, segment.key));
  try {
    segment.file->append(first.view(), bytes);
  } catch (...) {
    all_or_broken([&] { segment.file->truncate(segment.size); });
    throw;
  }
  const std::lock_guard lock(mutex);
  segment.size = offset + kRecordHeader + bytes.size();
  if (header.kind == RecordKind::command) segment.add_place(header.index, offset);
}

// Says how far the log is synced. Only with append_mutex.
void Log::State::write_mark() {
  RecordHeader mark;
  mark.kind = RecordKind::mark;
  mark.index = last;
  mark.epoch = epoch_of_last();
  mark.synced = synced;
  mark.checksum = xxh3({});
  write(mark, {});
}

// Where the record begins that has this index. REQUIRES: it is in the segment.
std::uint64_t Log::State::offset_of(const LogSegment& segment, std::uint64_t index) const {
  const auto behind = std::upper_bound(
      segment.places.begin(), segment.places.end(), index,
      [](std::uint64_t value, const LogPlace& place) { return value < place.index; });
  SegmentReader reader(*segment.file, segment.size, segment.key, std::prev(behind)->offset);
  RecordHeader header;
  while (reader.skip(header) == SegmentReader::Found::record) {
    if (header.kind == RecordKind::command && header.index == index) return reader.offset();
  }
  throw Failure("record " + std::to_string(index) + " of the log in " + disk.path() +
                " can't be read: " + segment.name() + " is damaged");
}

std::uint64_t Log::State::sync() {
  std::uint64_t wanted;
  {
    const std::lock_guard lock(mutex);
    wanted = last;
  }
  const std::lock_guard syncing(sync_mutex);
  LogSegments dirty;
  std::vector<std::uint64_t> sizes;
  bool names = false;
  {
    const std::lock_guard lock(mutex);
    require_whole();
    // Somebody else's wait may have been for these, too.
    if (synced >= wanted && !names_changed) return synced;
    wanted = last;
    for (const auto& segment : segments) {
      if (segment->synced_size == segment->size) continue;
      dirty.push_back(segment);
      sizes.push_back(segment->size);
    }
    names = std::exchange(names_changed, false);
  }
  all_or_broken([&] {
    for (const auto& segment : dirty) segment->file->sync();
    if (names) disk.sync_names();
  });
  {
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < dirty.size(); ++i) dirty[i]->synced_size = sizes[i];
    if (synced == wanted) return synced;
    synced = wanted;
  }
  const std::lock_guard appending(append_mutex);
  try {
    write_mark();
  } catch (const DiskFull&) {
    // The next one says it.
  }
  return wanted;
}

Log::Log(Disk& disk, const LogOptions& options) : state_(std::make_unique<State>(disk, options)) {
  state_->open();
  // What an earlier process wrote may not be on the disk yet.
  state_->names_changed = true;
  sync();
}

Log::~Log() = default;

void Log::append(std::uint64_t index, std::uint64_t epoch, std::span<const std::byte> bytes) {
  const std::lock_guard appending(state_->append_mutex);
  RecordHeader header;
  std::uint64_t last_epoch;
  {
    const std::lock_guard lock(state_->mutex);
    state_->require_whole();
    last_epoch = state_->epoch_of_last();
    if (index != state_->last + 1 || epoch < last_epoch) {
      throw UsageError("record " + std::to_string(index) + " of epoch " + std::to_string(epoch) +
                       " can't follow record " + std::to_string(state_->last) + " of epoch " +
                       std::to_string(last_epoch));
    }
    header.synced = state_->synced;
  }
  if (state_->segments.back()->size >= state_->options.segment_bytes) {
    state_->add_segment(state_->make_segment(index, last_epoch));
  }
  header.size = bytes.size();
  header.index = index;
  header.epoch = epoch;
  header.checksum = xxh3(bytes);
  state_->write(header, bytes);
  const std::lock_guard lock(state_->mutex);
  state_->last = index;
  if (epoch > last_epoch) state_->epochs.emplace_back(index, epoch);
}

std::uint64_t Log::sync() { return state_->sync(); }

void Log::truncate_after(std::uint64_t index) { state_->truncate_after(index); }
void Log::cut_before(std::uint64_t index) { state_->cut_before(index); }
void Log::reset(std::uint64_t index, std::uint64_t epoch) { state_->reset(index, epoch); }

std::uint64_t Log::synced_index() const {
  const std::lock_guard lock(state_->mutex);
  return state_->synced;
}

std::uint64_t Log::first_index() const {
  const std::lock_guard lock(state_->mutex);
  return state_->first();
}

std::uint64_t Log::last_index() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last;
}

std::uint64_t Log::last_epoch() const {
  const std::lock_guard lock(state_->mutex);
  return state_->epoch_of_last();
}

std::uint64_t Log::epoch_of(std::uint64_t index) const {
  const std::lock_guard lock(state_->mutex);
  if (index + 1 < state_->first() || index > state_->last) {
    throw UsageError("the log has records " + std::to_string(state_->first()) + " to " +
                     std::to_string(state_->last) + ", not " + std::to_string(index));
  }
  std::uint64_t epoch = state_->segments.front()->epoch_before;
  for (const auto& [first, value] : state_->epochs) {
    if (first <= index) epoch = value;
  }
  return epoch;
}

std::uint64_t Log::bytes() const {
  const std::lock_guard lock(state_->mutex);
  std::uint64_t bytes = 0;
  for (const auto& segment : state_->segments) bytes += segment->size;
  return bytes;
}

bool Log::tail_was_cut() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tail_cut;
}

std::vector<Log::Item> Log::items() const {
  LogSegments segments;
  std::vector<std::uint64_t> sizes;
  {
    const std::lock_guard lock(state_->mutex);
    state_->require_whole();
    segments = state_->segments;
    for (const auto& segment : segments) sizes.push_back(segment->size);
  }
  std::vector<Item> items;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    SegmentReader reader(*segments[i]->file, sizes[i], segments[i]->key);
    RecordHeader header;
    SegmentReader::Found found;
    while ((found = reader.skip(header)) == SegmentReader::Found::record) {
      if (header.kind == RecordKind::command) {
        items.push_back({header.index, header.epoch, header.size});
      }
    }
    if (found == SegmentReader::Found::damaged) {
      throw Failure("the log in " + state_->disk.path() + " is damaged: " + segments[i]->name() +
                    ", byte " + std::to_string(reader.offset()));
    }
  }
  return items;
}

std::vector<LogRecord> Log::read(std::uint64_t from, std::uint64_t limit) const {
  struct Part {
    std::shared_ptr<LogSegment> segment;
    std::uint64_t size;
    std::uint64_t begin;
  };
  std::vector<Part> parts;  // as they are now, whatever is appended meanwhile
  {
    const std::lock_guard lock(state_->mutex);
    state_->require_whole();
    if (from < state_->first() || from > state_->last + 1) {
      throw UsageError("records from " + std::to_string(from) + " were asked for; the log has " +
                       std::to_string(state_->first()) + " to " + std::to_string(state_->last));
    }
    if (from == state_->last + 1) return {};
    const auto& segments = state_->segments;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      if (i + 1 < segments.size() && segments[i + 1]->key.first <= from) continue;
      parts.push_back({segments[i], segments[i]->size, kSegmentHeader});
    }
    parts.front().begin = state_->offset_of(*parts.front().segment, from);
  }
  std::vector<LogRecord> records;
  std::uint64_t bytes = 0;
  for (const Part& part : parts) {
    SegmentReader reader(*part.segment->file, part.size, part.segment->key, part.begin);
    RecordHeader header;
    while (true) {
      // Its size decides before its bytes take memory.
      const auto next = reader.peek(header);
      if (next == SegmentReader::Found::end) break;
      if (next == SegmentReader::Found::record && header.kind == RecordKind::command &&
          !records.empty() && header.size > limit - std::min(limit, bytes)) {
        return records;
      }
      LogRecord record;
      if (reader.next(header, &record.bytes) != SegmentReader::Found::record) {
        throw Failure("the log in " + state_->disk.path() + " is damaged: " + part.segment->name() +
                      ", byte " + std::to_string(reader.offset()));
      }
      if (header.kind != RecordKind::command) continue;
      record.index = header.index;
      record.epoch = header.epoch;
      bytes += record.bytes.size();
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace convoy::server
