// A data set of a given size, for benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/data/loadable_dataset.h"

namespace convoy::cli {

// Records of half to one and a half times a size, of bytes that follow from their number.
class MadeUpRecords final : public data::LoadableDataset {
 public:
  // As many as make up about `bytes` together, at least one.
  MadeUpRecords(std::uint64_t bytes, std::uint64_t record_bytes);

  std::size_t size() const override { return lengths_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override;
  std::string key(std::size_t i) const override { return std::to_string(i); }
  std::int64_t label(std::size_t) const override { return 0; }
  std::uint64_t fingerprint() const override { return lengths_.size(); }
  std::uint64_t length(std::size_t i) const override { return lengths_[i]; }
  void load(data::Range records, std::span<std::byte> to) const override;
  data::Record record(std::size_t i, std::span<const std::byte> bytes) const override;

 private:
  std::vector<std::uint64_t> lengths_;
  std::vector<std::string> classes_ = {"0"};
};

}  // namespace convoy::cli
