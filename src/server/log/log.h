// The log of commands of one node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/log/disk.h"
#include "server/wire/writer.h"

namespace convoy::server {

struct LogRecord {
  std::uint64_t index = 0;
  std::uint64_t epoch = 0;
  Bytes bytes;
};

struct LogOptions {
  // A segment is closed, and a new one begun, when it has so many bytes.
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  // Goes into checksums, so that bytes that a client sent can't pass for a record: any number, the
  // same for all of this folder's life.
  std::uint64_t salt = 0;
};

// Records with consecutive indices and epochs that never fall, in segments: files "log-<index>" of
// a disk (docs/server-format.md). append(), truncate_after(), cut_before() and reset() are called
// by one thread at a time, the owner's; all others by any thread, also meanwhile, but for read()
// during truncate_after() or reset(), which may throw Failure then.
//
// After a write that failed (DiskFull) the log is as it was before, and goes on when there is room.
// After a sync that failed nobody knows what is on the disk: every later call throws.
class Log {
 public:
  // Opens the log of a disk, or begins one. Reads and checks every byte, with little memory.
  // Records at the end that were never synced and are not whole are removed, and those behind them.
  // Throws Failure saying where when a record is damaged that had been synced.
  explicit Log(Disk& disk, const LogOptions& options = {});
  ~Log();  // does not sync
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Writes a record: it survives the end of this process when the call returns, and a power cut
  // after the next sync(). Throws UsageError unless index is last_index() + 1 and epoch at least
  // that of the last one.
  void append(std::uint64_t index, std::uint64_t epoch, std::span<const std::byte> bytes);
  // Waits for what was appended before. Returns the index up to which all is synced. Several
  // threads that call it share the waits.
  std::uint64_t sync();
  std::uint64_t synced_index() const;

  // The first and the last record that are there; there is none when last_index() is
  // first_index() - 1. A new log has 1 and 0.
  std::uint64_t first_index() const;
  std::uint64_t last_index() const;
  std::uint64_t last_epoch() const;
  // Of a record that is there, or of the one before the first: 0 in a new log. UsageError for
  // others.
  std::uint64_t epoch_of(std::uint64_t index) const;
  std::uint64_t bytes() const;  // of all segments

  // Records from `from` on, one after another, up to `limit` bytes of commands, but at least one
  // when there is one. Their checksums are compared again. UsageError when from < first_index() or
  // from > last_index() + 1; Failure when damaged.
  std::vector<LogRecord> read(std::uint64_t from, std::uint64_t limit) const;

  // Index, epoch and size of each record, without reading the commands.
  struct Item {
    std::uint64_t index = 0;
    std::uint64_t epoch = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Item> items() const;

  // Removes the records after `index` (UsageError when that isn't one of them or the one before the
  // first), and waits until a power cut won't bring them back.
  void truncate_after(std::uint64_t index);
  // Removes segments that only hold records before `index`; never the last segment.
  void cut_before(std::uint64_t index);
  // Empty again; the next record is index + 1, and epoch_of(index) is `epoch`. What a node does
  // that takes a snapshot instead of records.
  void reset(std::uint64_t index, std::uint64_t epoch);

  // Whether records had to be removed when it was opened.
  bool tail_was_cut() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace convoy::server
