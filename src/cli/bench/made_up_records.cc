#include "cli/bench/made_up_records.h"

#include <algorithm>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/random.h"

namespace convoy::cli {

MadeUpRecords::MadeUpRecords(std::uint64_t bytes, std::uint64_t record_bytes) {
  RandomStream random(bytes, record_bytes);
  for (std::uint64_t made = 0; made < bytes || lengths_.empty(); made += lengths_.back())
    lengths_.push_back(record_bytes / 2 + 1 + random.below(record_bytes));
}

void MadeUpRecords::load(data::Range records, std::span<std::byte> to) const {
  for (std::size_t i = records.begin; i < records.end; ++i) {
    RandomStream random(i);
    for (std::size_t at = 0; at < lengths_[i]; at += sizeof(std::uint64_t)) {
      const std::uint64_t value = random();
      std::memcpy(&to[at], &value, std::min<std::size_t>(sizeof value, lengths_[i] - at));
    }
    to = to.subspan(lengths_[i]);
  }
}

data::Record MadeUpRecords::read(std::size_t i, std::vector<std::byte>& scratch) const {
  scratch.resize(lengths_[i]);
  load({i, i + 1}, scratch);
  return record(i, scratch);
}

data::Record MadeUpRecords::record(std::size_t, std::span<const std::byte> bytes) const {
  return {bytes, data::Encoding::planar_u8, {1, 1, static_cast<int>(bytes.size())}, 0};
}

}  // namespace convoy::cli
