// The index beside a tar: docs/formats/packed.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::data {

// An index whose bytes are not what they should be.
class IndexError : public UsageError {
 public:
  using UsageError::UsageError;
};

// FILE.tar -> FILE.tar.index
std::string index_path(const std::string& tar);

struct IndexEntry {
  std::string_view key;      // the member's name in the tar
  std::uint64_t offset = 0;  // of its bytes in the tar
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of its bytes
  // Of the bytes between the previous record and this one: padding, labels, headers.
  std::uint64_t gap_checksum = 0;
  std::uint32_t label = 0;
};

// What holds for all records.
struct IndexHeader {
  std::uint64_t tar_bytes = 0;
  std::uint64_t tail_checksum = 0;  // of the bytes behind the last record
  std::vector<std::string> classes;
  std::string about;  // how the tar was made: lines "name = value"; may be empty
};

// Read-only, so that any thread may ask. An index that was accepted is consistent: records ascend
// and don't overlap, lie inside of the tar, and have labels of the class list.
class Index {
 public:
  // Throws IndexError naming the index and what is wrong with it; UsageError for another version.
  Index(std::vector<std::byte> bytes, const std::string& name);
  // It has views of its own bytes, which moving leaves where they are.
  Index(Index&&) = default;
  Index& operator=(Index&&) = default;
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  std::size_t size() const { return count_; }
  IndexEntry operator[](std::size_t i) const;
  // Where the bytes between record i - 1 and record i begin.
  std::uint64_t gap_begin(std::size_t i) const;
  const IndexHeader& header() const { return header_; }
  // Of all that decides which record is which.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  void check_entries(const std::string& name) const;

  std::vector<std::byte> bytes_;
  std::span<const std::byte> entries_;
  std::string_view keys_;
  std::size_t count_ = 0;
  std::uint64_t fingerprint_ = 0;
  IndexHeader header_;
};

// Collects entries in ascending order of offsets.
class IndexBuilder {
 public:
  void add(const IndexEntry& entry);
  std::size_t size() const { return count_; }
  // The whole index, as bytes.
  std::vector<std::byte> finish(const IndexHeader& header) const;

 private:
  std::vector<std::byte> entries_;
  std::string keys_;
  std::size_t count_ = 0;
};

}  // namespace convoy::data
