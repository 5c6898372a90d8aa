// Opening a log: which of its bytes are whole.
#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/log/log_state.h"

namespace convoy::server {

void Log::State::open() {
  LogSegments all;
  for (const std::string& name : disk.list()) {
    const auto first = first_of_segment(name);
    if (!first || *first == 0) continue;
    auto segment = std::make_shared<LogSegment>();
    segment->key = {options.salt, *first};
    segment->file = disk.open(name);
    segment->size = segment->file->size();
    all.push_back(std::move(segment));
  }
  if (all.empty()) {
    add_segment(make_segment(1, 0));
    return;
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a->key.first < b->key.first; });
  last = all.front()->key.first - 1;
  std::uint64_t known = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    // One that doesn't begin behind the last record lacks its tail, or those between are lost.
    const bool follows = all[i]->key.first == last + 1;
    if (follows) segments.push_back(all[i]);
    if (!follows || !scan(*all[i], known)) {
      cut_tail(i, all, known);
      break;
    }
  }
  synced = std::min(known, last);
  // Zeros that were to come before the next record.
  LogSegment& end = *segments.back();
  if (end.file->size() > end.size) end.file->truncate(end.size);
}

bool Log::State::scan(LogSegment& segment, std::uint64_t& known) {
  Bytes begin(std::min<std::uint64_t>(kSegmentHeader, segment.size));
  segment.file->read(0, begin);
  const auto epoch_before = read_segment_header(begin, segment.key);
  const std::uint64_t size = std::exchange(segment.size, 0);
  if (!epoch_before || (segments.size() > 1 && *epoch_before != epoch_of_last())) return false;
  segment.epoch_before = *epoch_before;
  segment.size = kSegmentHeader;
  SegmentReader reader(*segment.file, size, segment.key);
  RecordHeader header;
  while (true) {
    const auto found = reader.next(header, nullptr);
    if (found == SegmentReader::Found::end) return true;
    if (found == SegmentReader::Found::damaged) return false;
    if (header.kind == RecordKind::command) {
      if (header.index != last + 1 || header.epoch < epoch_of_last()) return false;
      if (header.epoch > epoch_of_last()) epochs.emplace_back(header.index, header.epoch);
      last = header.index;
      segment.add_place(last, reader.offset());
    }
    known = std::max(known, header.synced);
    segment.size = reader.end_of_record();
  }
}

// Segment number `at` of `all`, or the gap before it, ends the log, unless a header behind says
// that record last + 1 was synced: then it is lost.
void Log::State::cut_tail(std::size_t at, const LogSegments& all, std::uint64_t known) {
  for (std::size_t i = at; i < all.size(); ++i) {
    SegmentReader reader(*all[i]->file, all[i]->file->size(), all[i]->key);
    known = std::max(known, reader.synced_after(i == at ? all[i]->size : 0));
  }
  // The header of a log's first segment is synced before the log is used, unless that is record 1.
  if (known > last || (all[at]->size == 0 && at == 0 && last > 0)) {
    throw Failure("the log in " + disk.path() + " is damaged: record " + std::to_string(last + 1) +
                  " (" + all[at]->name() + ", byte " + std::to_string(all[at]->size) +
                  ") can't be read, though it was synced");
  }
  tail_cut = true;
  all_or_broken([&] {
    for (std::size_t i = all.size(); i-- > at;) {
      const bool keep = i == at && all[i]->size > 0 && segments.back() == all[i];
      if (keep) {
        all[i]->file->truncate(all[i]->size);
        continue;
      }
      disk.remove(all[i]->name());
      if (segments.back() == all[i]) segments.pop_back();
    }
    disk.sync_names();
    if (segments.empty()) add_segment(make_segment(1, 0));
  });
}

}  // namespace convoy::server
