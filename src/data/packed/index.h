// The index beside a tar: docs/formats/packed.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"
#include "data/packed/label_lists.h"

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
  // This is the checksum of the bytes between the previous record and this one: padding, labels,
  // headers.
  std::uint64_t gap_checksum = 0;
  std::int64_t label = 0;  // the first of them; kNoLabel where there is none
};

// What holds for all records.
struct IndexHeader {
  std::uint64_t tar_bytes = 0;
  std::uint64_t tail_checksum = 0;  // of the bytes behind the last record
  std::vector<std::string> classes;
  std::string about;  // how the tar was made: lines "name = value"; may be empty
};

// Read-only, so that any thread may ask. An index that was accepted is consistent: records ascend
// and don't overlap, lie inside of the tar, and have labels of the class list, each once.
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
  // Whether it is of version 2, in which a record has any number of labels.
  bool label_lists() const { return label_lists_; }
  // All labels of record i, ascending.
  std::vector<std::int64_t> labels(std::size_t i) const;
  // Where the bytes between record i - 1 and record i begin.
  std::uint64_t gap_begin(std::size_t i) const;
  const IndexHeader& header() const { return header_; }
  // Gives a hash of all that decides which record is which.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  void check_entries(const std::string& name) const;
  void check_labels(const std::string& name) const;
  void check_lists(const std::string& name) const;
  void check_label(const std::string& name, std::size_t i, std::uint32_t label) const;
  // Say where the labels of a record begin and end in the table of labels, counted in labels.
  std::size_t labels_begin(std::size_t i) const;
  std::size_t labels_end(std::size_t i) const;

  std::vector<std::byte> bytes_;
  std::span<const std::byte> entries_;
  std::string_view keys_;
  std::span<const std::byte> labels_;
  bool label_lists_ = false;
  std::size_t count_ = 0;
  std::uint64_t fingerprint_ = 0;
  IndexHeader header_;
};

// Collects entries in ascending order of offsets. The index is of version 1 if each record has one
// label, whatever it was made from; else of version 2.
class IndexBuilder {
 public:
  // With entry.label alone; or with these labels, ascending, whatever entry.label is.
  void add(const IndexEntry& entry);
  void add(const IndexEntry& entry, std::span<const std::uint32_t> labels);
  std::size_t size() const { return count_; }
  bool label_lists() const { return label_lists_; }
  std::uint64_t labels() const;  // of all records together
  // The whole index, as bytes.
  std::vector<std::byte> finish(const IndexHeader& header) const;

 private:
  void begin_lists();

  std::vector<std::byte> entries_;
  std::string keys_;
  std::vector<std::byte> labels_;  // of version 2
  bool label_lists_ = false;
  std::size_t count_ = 0;
};

}  // namespace convoy::data
