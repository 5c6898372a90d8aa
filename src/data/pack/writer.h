// The tar that pack() writes, and what stands beside it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/data/pack.h"
#include "data/pack/converter.h"
#include "data/pack/journal.h"
#include "data/packed/index.h"

namespace convoy::data {

// An image whose key was taken by another.
struct Renamed {
  std::string name, key;
};

// Takes what became of each image of the source, in their order. One thread at a time.
class PackWriter {
 public:
  // Goes on with what an interrupted run of the same identity has left, as far as it is sound;
  // taken() is how many images that covers. Throws as pack() does.
  // label_lists: labels stand beside each record as a list.
  PackWriter(const PackOptions& options, const std::string& identity,
             std::vector<std::string> classes, std::string about, bool label_lists);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  // How many images have been added, by this run and those before it.
  std::size_t taken() const { return taken_; }
  const PackResult& result() const { return result_; }

  // `key`: without extension. `labels`: ascending; one unless there are lists.
  void add_record(const std::string& key, std::span<const std::uint32_t> labels,
                  const Converted& image);
  void add_bad(const std::string& name, const std::string& why);

  // Makes sure that a later run can go on from here. Throws Failure.
  void save();
  // Puts tar, index and report in place. Throws UsageError when there is no record.
  PackResult finish(const std::vector<Renamed>& renamed);

 private:
  void resume();
  std::size_t sound_entries();
  void begin();
  void take(const JournalEntry& entry);
  void write(std::span<const std::byte> bytes);
  [[noreturn]] void fail(int error) const;
  void write_report(const std::vector<Renamed>& renamed) const;

  const PackOptions& options_;
  std::string partial_;
  std::vector<std::string> classes_;
  std::string about_;
  bool label_lists_;
  Journal journal_;
  int fd_ = -1;
  std::uint64_t position_ = 0;     // in the tar
  std::vector<std::byte> buffer_;  // not written yet
  std::vector<std::byte> gap_;     // all since the last record's end
  std::size_t taken_ = 0;
  IndexBuilder index_;
  std::vector<std::string> bad_;  // name, tab, why
  PackResult result_;
};

}  // namespace convoy::data
