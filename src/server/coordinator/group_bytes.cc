// The bytes of a ledger of groups (docs/server-coordinator.md).
#include <algorithm>
#include <cmath>
#include <string>

#include "convoy/base/error.h"
#include "server/coordinator/group_ledger.h"
#include "server/state/batch_commands.h"
#include "server/wire/reader.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::uint16_t kGroupVersion = 1;
constexpr std::uint8_t kDone = 0x80, kCounted = 0x40;
constexpr std::size_t kGroupBytes = 5;

}  // namespace

std::set<std::uint32_t> GroupLedger::take_changed() { return std::exchange(changed_, {}); }

Bytes GroupLedger::encode() const {
  Writer writer;
  writer.u16(kGroupVersion);
  writer.u32(options_.portions);
  writer.boolean(open_);
  write(writer, evaluation_);
  return writer.take();
}

Bytes GroupLedger::encode(std::uint32_t block) const {
  Writer writer;
  writer.u16(kGroupVersion);
  write(writer, evaluation_);
  const auto begin = groups_.lower_bound(block * kBlock);
  const auto end = groups_.lower_bound((block + 1) * kBlock);
  writer.u32(static_cast<std::uint32_t>(std::distance(begin, end)));
  for (auto at = begin; at != end; ++at) {
    const auto& [first, group] = *at;
    writer.u32(first);
    writer.u8(group.log2_size | (group.done ? kDone : 0) | (group.counted ? kCounted : 0));
  }
  const auto sum = sums_.find(block);
  writer.boolean(sum != sums_.end());
  if (sum != sums_.end()) {
    sum->second.write(writer.room(ExactSum::kBytes).first<ExactSum::kBytes>());
  }
  return writer.take();
}

void GroupLedger::decode(std::span<const std::byte> bytes) {
  Reader reader(bytes, "the ledger of groups");
  reader.version(kGroupVersion);
  if (const std::uint32_t portions = reader.u32(); portions != options_.portions) {
    reader.refuse("a batch of " + std::to_string(portions) + " portions, where it has " +
                  std::to_string(options_.portions) + " now");
  }
  const bool is_open = reader.boolean();
  const EvaluationId evaluation = read_evaluation_id(reader);
  reader.end();
  begin(evaluation);
  open_ = is_open;
}

void GroupLedger::decode(std::uint32_t block, std::span<const std::byte> bytes) {
  Reader reader(bytes, "block " + std::to_string(block) + " of the ledger of groups");
  reader.version(kGroupVersion);
  if (read_evaluation_id(reader) != evaluation_) return;
  const std::uint32_t count = reader.count(kGroupBytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t first = reader.u32();
    const std::uint8_t bits = reader.u8();
    const PortionGroup which{first, static_cast<std::uint8_t>(bits & ~(kDone | kCounted))};
    if (which.log2_size > kBlockLevel || first / kBlock != block ||
        first % portions_of(which) != 0 || first >= options_.portions ||
        portions_of(which) > options_.portions - first) {
      reader.refuse("portion " + std::to_string(first) + " begins no group of level " +
                    std::to_string(which.log2_size));
    }
    const auto range = is_free(first) ? std::prev(free_.upper_bound(first)) : free_.end();
    if (range == free_.end() || range->second < end_of(which))
      reader.refuse("a group that begins at portion " + std::to_string(first) + " has others'");
    const auto [begin, end] = *range;
    free_.erase(range);
    if (begin < first) free_[begin] = first;
    if (end_of(which) < end) free_[end_of(which)] = end;
    free_count_ -= portions_of(which);
    Group& group = groups_[first];
    group.log2_size = which.log2_size;
    group.done = (bits & kDone) != 0;
    group.counted = (bits & kCounted) != 0;
    ++counts_.groups;
    if (group.done) {
      counts_.done += portions_of(which);
    } else {
      reopen(first, group);
    }
  }
  if (reader.boolean()) {
    const auto bytes_of_sum = reader.raw(ExactSum::kBytes);
    try {
      const ExactSum sum = ExactSum::read(bytes_of_sum.first<ExactSum::kBytes>());
      if (!std::isfinite(sum.value())) hopeless_ = true;
      sums_[block] = sum;
    } catch (const Failure& error) {
      reader.refuse(error.what());
    }
  }
  reader.end();
}

}  // namespace convoy::server::coordinator
