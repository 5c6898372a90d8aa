// A data set whose records can be loaded many at a time: where a store takes them from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "convoy/data/dataset.h"
#include "convoy/data/epoch_order.h"

namespace convoy::data {

class LoadableDataset : public Dataset {
 public:
  // Gives the bytes of record i, and of a range of records together, without anything that stands
  // between them. i < size(), records.end <= size().
  virtual std::uint64_t length(std::size_t i) const = 0;
  virtual std::uint64_t bytes(Range records) const;

  // Reads a range of records into `to`, one after the other without gaps. to.size() ==
  // bytes(records), or UsageError. Throws as read() does. Any number of threads may load,
  // disjoint ranges or the same.
  virtual void load(Range records, std::span<std::byte> to) const = 0;

  // Makes record i of its bytes.
  virtual Record record(std::size_t i, std::span<const std::byte> bytes) const = 0;
};

}  // namespace convoy::data
