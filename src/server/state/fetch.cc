// What any thread may read of a shard.
#include <bit>
#include <mutex>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/server/vectors.h"
#include "server/state/shard_state.h"

namespace convoy::server {
namespace {

// Throws UsageError unless the range lies in arrays of this kind.
void check_range(const FetchRange& range, const SliceDefinition& slice) {
  const std::string about = "fetch of '" + slice.name + "': ";
  const std::size_t arrays = 1 + (slice.rule ? optim::slots(*slice.rule).size() : 0);
  if (range.array >= arrays) {
    throw UsageError(about + "it has " + std::to_string(arrays - 1) + " slots of state, not " +
                     std::to_string(range.array));
  }
  if (range.begin > slice.size || range.size > slice.size - range.begin) {
    throw UsageError(about + std::to_string(range.size) + " elements from " +
                     std::to_string(range.begin) + "; the slice has " + std::to_string(slice.size));
  }
}

// Throws UsageError unless the values of this range go there in this encoding.
void check_room(const FetchRange& range, Encoding encoding, std::size_t bytes) {
  if (!known(encoding) || encoding == Encoding::fill) {
    throw UsageError("fetch: values are sent as f32, bf16 or f16");
  }
  // Nor does it wrap around.
  if (range.size > kMaxElements || bytes != encoded_size(encoding, range.size)) {
    throw UsageError("fetch: " + std::to_string(bytes) + " bytes of room for " +
                     std::to_string(range.size) + " values");
  }
}

}  // namespace

// Keeps what it refers to.
struct ShardState::Found {
  std::uint64_t version = 0;
  std::shared_ptr<const ShardSlice> slice;  // as it is now, or
  std::shared_ptr<const ShardCut> cut;      // as it was
  const FrozenBlocks* frozen = nullptr;

  // Calls f(values, block) for each stripe of the range.
  template <typename Call>
  void for_each(const FetchRange& range, const Call& f) const {
    const std::uint64_t end = range.begin + range.size;
    for (std::uint64_t at = range.begin; at < end;) {
      const std::size_t stripe = at / StripedVector::kStripe;
      const std::size_t offset = at % StripedVector::kStripe;
      const std::uint64_t count =
          std::min<std::uint64_t>(StripedVector::kStripe - offset, end - at);
      BlockPtr block = frozen != nullptr ? (*frozen)[stripe] : slice->vector.block(stripe);
      const std::span<const float> values = block->array(range.array);
      f(values.subspan(offset, count), std::move(block));
      at += count;
    }
  }

  void write(const FetchRange& range, Encoding encoding, std::span<std::byte> to) const {
    for_each(range, [&](std::span<const float> values, const BlockPtr&) {
      const std::size_t bytes = encoded_size(encoding, values.size());
      encode(encoding, values, to.first(bytes));
      to = to.subspan(bytes);
    });
  }

  void list(const FetchRange& range, std::vector<View>& to) const {
    for_each(range, [&](std::span<const float> values, BlockPtr block) {
      to.push_back({values, std::move(block)});
    });
  }
};

ShardState::Found ShardState::find(const FetchRange& range) const {
  Found found;
  {
    const std::shared_lock lock(mutex_);
    if (range.slice >= data_.slices.size()) {
      throw UsageError("fetch: there is no slice " + std::to_string(range.slice));
    }
    check_range(range, data_.definition->slices[range.slice]);
    found.slice = data_.slices[range.slice];
  }
  if (!found.slice) {
    throw UsageError("fetch: slice " + std::to_string(range.slice) + " has no values yet");
  }
  found.version = found.slice->version.load(std::memory_order_acquire);
  return found;
}

ShardState::Found ShardState::find_in_cut(std::uint64_t cut, const FetchRange& range) const {
  Found found;
  {
    const std::shared_lock lock(mutex_);
    const auto at = data_.cuts.find(cut);
    if (at == data_.cuts.end()) {
      throw UsageError("fetch: there is no cut " + std::to_string(cut));
    }
    found.cut = at->second;
    if (range.slice >= found.cut->slices.size()) {
      throw UsageError("fetch: there is no slice " + std::to_string(range.slice) + " in cut " +
                       std::to_string(cut));
    }
    check_range(range, data_.definition->slices[range.slice]);
  }
  const auto& slice = found.cut->slices[range.slice];
  if (!slice) {
    throw UsageError("fetch: slice " + std::to_string(range.slice) + " had no values at cut " +
                     std::to_string(cut));
  }
  found.version = slice->version;
  found.frozen = &slice->blocks;
  return found;
}

std::uint64_t ShardState::fetch(const FetchRange& range, Encoding encoding,
                                std::span<std::byte> to) const {
  const Found found = find(range);
  check_room(range, encoding, to.size());
  found.write(range, encoding, to);
  return found.version;
}

std::uint64_t ShardState::fetch_cut(std::uint64_t cut, const FetchRange& range, Encoding encoding,
                                    std::span<std::byte> to) const {
  const Found found = find_in_cut(cut, range);
  check_room(range, encoding, to.size());
  found.write(range, encoding, to);
  return found.version;
}

std::uint64_t ShardState::view(const FetchRange& range, std::vector<View>& to) const {
  const Found found = find(range);
  found.list(range, to);
  return found.version;
}

std::uint64_t ShardState::view_cut(std::uint64_t cut, const FetchRange& range,
                                   std::vector<View>& to) const {
  const Found found = find_in_cut(cut, range);
  found.list(range, to);
  return found.version;
}

std::optional<Definition> ShardState::definition() const {
  const std::shared_lock lock(mutex_);
  std::optional<Definition> definition = data_.definition;
  for (std::size_t i = 0; i < data_.rates.size(); ++i) {
    auto& rule = definition->slices[i].rule;
    if (rule) optim::set_learning_rate(*rule, data_.rates[i]);
  }
  return definition;
}

ShardStatus ShardState::status() const {
  const std::shared_lock lock(mutex_);
  ShardStatus status;
  status.applied = data_.applied;
  status.round = data_.round;
  for (const auto& slice : data_.slices) {
    status.versions.push_back(slice ? slice->version.load(std::memory_order_acquire) : 0);
  }
  for (const auto& [id, client] : data_.clients) status.clients.push_back({id, client});
  for (const auto& [id, cut] : data_.cuts) status.cuts.push_back(id);
  status.collected = data_.collected.size();
  status.staleness = data_.staleness;
  status.ledger = data_.ledger;
  return status;
}

LastPushes ShardState::last_pushes(std::uint64_t cut) const {
  const std::shared_lock lock(mutex_);
  const auto found = data_.cuts.find(cut);
  if (found == data_.cuts.end()) throw UsageError("there is no cut " + std::to_string(cut));
  return found->second->clients;
}

std::size_t StalenessHistogram::entry(std::uint64_t staleness) {
  if (staleness < 16) return staleness;
  return std::min<std::size_t>(kEntries - 1, 11 + std::bit_width(staleness));
}

LastPushes ShardData::last_pushes() const {
  LastPushes pushes;
  for (const auto& [id, client] : clients) {
    pushes.push_back({id, client.sequence, client.applied_progress});
  }
  return pushes;
}

std::vector<std::optional<FrozenSlice>> ShardData::freeze() const {
  std::vector<std::optional<FrozenSlice>> frozen;
  frozen.reserve(slices.size());
  for (const auto& slice : slices) {
    frozen.emplace_back();
    if (slice) frozen.back() = FrozenSlice{slice->version, slice->vector.freeze()};
  }
  return frozen;
}

}  // namespace convoy::server
