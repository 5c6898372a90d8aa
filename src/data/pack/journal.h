// What an interrupted pack() had done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::data {

// What became of one image of the source. Images are numbered in the order of packing.
struct JournalEntry {
  bool bad = false;
  bool unchanged = false;
  std::string text;  // the record's key; of a bad image, why it is bad
  // The rest: of a record, as in the index.
  std::vector<std::uint32_t> labels;
  std::uint64_t offset = 0, length = 0, checksum = 0, gap_checksum = 0;
  std::uint64_t end = 0;  // of all that the tar holds of it
};

// A file of entries, each with its checksum, so that one that was torn by a power cut is known. One
// thread at a time; one process at a time, which a lock on the file ensures.
class Journal {
 public:
  // Opens or makes the file. `identity` stands for sources and options: entries() are those of an
  // earlier run of the same identity, as far as they are sound. Throws UsageError when another
  // process has it, or when it is of another identity and not `overwrite`; Failure when it can't be
  // written, also because it is a symbolic link.
  Journal(std::string path, const std::string& identity, bool overwrite);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const std::vector<JournalEntry>& entries() const { return entries_; }
  // Forgets all entries from this one on.
  void cut(std::size_t count);

  // In memory, until flush(). Throws Failure.
  void add(const JournalEntry& entry);
  void flush();
  // Removes the file.
  void remove();

 private:
  static int open_locked(const std::string& path);
  void read(const std::string& identity, bool overwrite);
  void append(const std::vector<std::byte>& payload);

  std::string path_;
  int fd_ = -1;
  std::vector<JournalEntry> entries_;
  std::vector<std::uint64_t> ends_;  // of the file, with so many entries
  std::vector<std::byte> pending_;
};

}  // namespace convoy::data
