#include "server/log/segment.h"

#include <algorithm>
#include <cstring>

#include "convoy/base/checksum.h"
#include "server/wire/reader.h"

namespace convoy::server {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::uint64_t kSegmentMagic = 0x31474f4c59564e43;  // "CNVYLOG1"
constexpr std::uint32_t kSegmentVersion = 1;
constexpr std::string_view kSegmentPrefix = "log-";
constexpr std::size_t kSegmentDigits = 20;

std::uint64_t keyed_checksum(std::span<const std::byte> bytes, const SegmentKey& key) {
  Writer with_key;
  with_key.u64(key.salt);
  with_key.u64(key.first);
  with_key.raw(bytes);
  return xxh3(with_key.view());
}

}  // namespace

std::string segment_name(std::uint64_t first) {
  const std::string number = std::to_string(first);
  return std::string(kSegmentPrefix) + std::string(kSegmentDigits - number.size(), '0') + number;
}

std::optional<std::uint64_t> first_of_segment(const std::string& name) {
  if (!name.starts_with(kSegmentPrefix) || name.size() != kSegmentPrefix.size() + kSegmentDigits)
    return std::nullopt;
  std::uint64_t first = 0;
  for (const char digit : name.substr(kSegmentPrefix.size())) {
    if (digit < '0' || digit > '9') return std::nullopt;
    first = first * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  // A number that doesn't fit has wrapped around.
  if (segment_name(first) != name) return std::nullopt;
  return first;
}

Bytes segment_header(const SegmentKey& key, std::uint64_t epoch_before) {
  Writer writer;
  writer.u64(kSegmentMagic);
  writer.u32(kSegmentVersion);
  writer.u32(kSegmentHeader);
  writer.u64(key.first);
  writer.u64(epoch_before);
  writer.raw(std::array<std::byte, 24>{});
  writer.u64(keyed_checksum(writer.view(), key));
  return writer.take();
}

std::optional<std::uint64_t> read_segment_header(std::span<const std::byte> bytes,
                                                 const SegmentKey& key) {
  if (bytes.size() < kSegmentHeader) return std::nullopt;
  Reader reader(bytes.first(kSegmentHeader), "segment header");
  const std::uint64_t magic = reader.u64();
  const std::uint32_t version = reader.u32();
  const std::uint32_t size = reader.u32();
  const std::uint64_t first = reader.u64();
  const std::uint64_t epoch = reader.u64();
  reader.raw(24);
  const bool good = magic == kSegmentMagic && version == kSegmentVersion &&
                    size == kSegmentHeader && first == key.first &&
                    reader.u64() == keyed_checksum(bytes.first(kSegmentHeader - 8), key);
  if (!good) return std::nullopt;
  return epoch;
}

std::array<std::byte, kRecordHeader> record_header(const RecordHeader& header,
                                                   const SegmentKey& key) {
  Writer writer;
  writer.u32(static_cast<std::uint32_t>(header.kind));
  writer.u32(0);
  writer.u64(header.size);
  writer.u64(header.index);
  writer.u64(header.epoch);
  writer.u64(header.synced);
  writer.u64(header.checksum);
  writer.u64(keyed_checksum(writer.view(), key));
  std::array<std::byte, kRecordHeader> bytes;
  std::copy(writer.view().begin(), writer.view().end(), bytes.begin());
  return bytes;
}

std::optional<RecordHeader> read_record_header(std::span<const std::byte> bytes,
                                               const SegmentKey& key) {
  if (bytes.size() < kRecordHeader) return std::nullopt;
  Reader reader(bytes.first(kRecordHeader), "record header");
  RecordHeader header;
  header.kind = static_cast<RecordKind>(reader.u32());
  const bool known = header.kind == RecordKind::command || header.kind == RecordKind::mark;
  // The kind first: cheap, and what almost all bytes fail that are no header.
  if (!known || reader.u32() != 0) return std::nullopt;
  header.size = reader.u64();
  header.index = reader.u64();
  header.epoch = reader.u64();
  header.synced = reader.u64();
  header.checksum = reader.u64();
  if (reader.u64() != keyed_checksum(bytes.first(kRecordHeader - 8), key)) return std::nullopt;
  return header;
}

std::span<const std::byte> SegmentReader::window(std::uint64_t offset, std::size_t size) {
  if (offset < buffer_begin_ || offset + size > buffer_begin_ + buffer_.size()) {
    buffer_.resize(std::min<std::uint64_t>(kBuffer, size_ - offset));
    buffer_begin_ = offset;
    file_.read(offset, buffer_);
  }
  return std::span<const std::byte>(buffer_).subspan(offset - buffer_begin_, size);
}

SegmentReader::Found SegmentReader::peek(RecordHeader& header) {
  if (next_ != 0) offset_ = aligned(next_);
  if (offset_ >= size_) return Found::end;
  if (size_ - offset_ < kRecordHeader) return Found::damaged;
  const auto read = read_record_header(window(offset_, kRecordHeader), key_);
  if (!read || read->size > size_ - offset_ - kRecordHeader) return Found::damaged;
  header = *read;
  return Found::record;
}

SegmentReader::Found SegmentReader::next(RecordHeader& header, Bytes* bytes) {
  const Found found = peek(header);
  if (found != Found::record) return found;
  const std::uint64_t begin = offset_ + kRecordHeader;
  if (bytes != nullptr) {
    bytes->resize(header.size);
    // Small ones come from the buffer, several with one call to the system.
    if (header.size <= kBuffer / 4) {
      const auto from = window(begin, header.size);
      std::copy(from.begin(), from.end(), bytes->begin());
    } else {
      file_.read(begin, *bytes);
    }
    if (xxh3(*bytes) != header.checksum) return Found::damaged;
  } else {
    Xxh3 sum;
    for (std::uint64_t at = 0; at < header.size;) {
      const auto piece = std::min<std::uint64_t>(kBuffer, header.size - at);
      sum.update(window(begin + at, piece));
      at += piece;
    }
    if (sum.digest() != header.checksum) return Found::damaged;
  }
  next_ = begin + header.size;
  return Found::record;
}

SegmentReader::Found SegmentReader::skip(RecordHeader& header) {
  const Found found = peek(header);
  if (found == Found::record) next_ = offset_ + kRecordHeader + header.size;
  return found;
}

std::uint64_t SegmentReader::synced_after(std::uint64_t offset) {
  std::uint64_t synced = 0;
  for (std::uint64_t at = aligned(offset); at + kRecordHeader <= size_; at += kRecordAlignment) {
    const auto header = read_record_header(window(at, kRecordHeader), key_);
    if (header) synced = std::max(synced, header->synced);
  }
  return synced;
}

}  // namespace convoy::server
