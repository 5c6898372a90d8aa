// The bytes of one file of the log (docs/server-format.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "server/log/disk.h"
#include "server/wire/writer.h"

namespace convoy::server {

// What all headers of one segment are mixed with: no bytes from outside can pass for a header, and
// no header of another segment for one of this.
struct SegmentKey {
  std::uint64_t salt = 0;
  std::uint64_t first = 0;  // index of the segment's first record
};

inline constexpr std::size_t kSegmentHeader = 64;
inline constexpr std::size_t kRecordHeader = 56;
inline constexpr std::size_t kRecordAlignment = 8;

// "log-00000000000000000042", and back.
std::string segment_name(std::uint64_t first);
std::optional<std::uint64_t> first_of_segment(const std::string& name);

Bytes segment_header(const SegmentKey& key, std::uint64_t epoch_before);
// The epoch of the record before the segment's first, or nothing unless these are the bytes of its
// header.
std::optional<std::uint64_t> read_segment_header(std::span<const std::byte> bytes,
                                                 const SegmentKey& key);

enum class RecordKind : std::uint32_t {
  command = 1,
  mark = 2,  // says how far the log is synced, and has no bytes
};

struct RecordHeader {
  RecordKind kind = RecordKind::command;
  std::uint64_t size = 0;   // of the bytes behind it
  std::uint64_t index = 0;  // of a mark: that of the record before it
  std::uint64_t epoch = 0;
  std::uint64_t synced = 0;    // every record up to this index was synced when this was written
  std::uint64_t checksum = 0;  // of the bytes behind it
};

std::array<std::byte, kRecordHeader> record_header(const RecordHeader& header,
                                                   const SegmentKey& key);
std::optional<RecordHeader> read_record_header(std::span<const std::byte> bytes,
                                               const SegmentKey& key);

// Where the record behind one that ends at `offset` begins.
constexpr std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// Reads the records of a segment one after the other, with a buffer of 256 KiB.
class SegmentReader {
 public:
  // Of the first `size` bytes of the file; begins at the record at `offset`.
  SegmentReader(const DiskFile& file, std::uint64_t size, const SegmentKey& key,
                std::uint64_t offset = kSegmentHeader)
      : file_(file), size_(size), key_(key), offset_(offset) {}

  enum class Found { record, end, damaged };
  // The header of the next record, which stays the next one.
  Found peek(RecordHeader& header);
  // The next record. With `bytes` they are put there, else only compared with their checksum;
  // skip() leaves out even that.
  Found next(RecordHeader& header, Bytes* bytes);
  Found skip(RecordHeader& header);
  // Where the record that was found begins, or where the next one should.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t end_of_record() const { return next_; }

  // The largest `synced` of any header of this segment from the byte `offset` on, wherever it
  // stands.
  std::uint64_t synced_after(std::uint64_t offset);

 private:
  // Bytes from the file, as many as asked for, at most the buffer's size; good until the next call.
  std::span<const std::byte> window(std::uint64_t offset, std::size_t size);

  const DiskFile& file_;
  std::uint64_t size_;
  SegmentKey key_;
  std::uint64_t offset_;
  std::uint64_t next_ = 0;  // behind the record found; 0 before the first
  Bytes buffer_;
  std::uint64_t buffer_begin_ = 0;
};

}  // namespace convoy::server
