// A shard's state in bytes: a head with everything small, then commands that wait for their round,
// then the blocks of values.
#include <algorithm>
#include <mutex>
#include <utility>

#include "convoy/base/error.h"
#include "server/state/shard_state.h"

namespace convoy::server {
namespace {

constexpr std::uint16_t kStateVersion = 2;
constexpr std::uint16_t kWithBatch = 2;  // from here on there are a batch optimizer's vectors
constexpr std::uint64_t kMaxVersion = std::uint64_t{1} << 62;
constexpr std::size_t kPiece = std::size_t{1} << 20;

using FrozenSlices = std::vector<std::optional<FrozenSlice>>;
using Cuts = std::map<std::uint64_t, std::shared_ptr<const ShardCut>>;

void write_versions(Writer& writer, const FrozenSlices& slices) {
  for (const auto& slice : slices) {
    writer.boolean(slice.has_value());
    if (slice) writer.u64(slice->version);
  }
}

void write_batch(Writer& writer, const BatchData& batch) {
  writer.boolean(batch.element.has_value());
  if (!batch.element) return;
  writer.u8(static_cast<std::uint8_t>(*batch.element));
  writer.u64(batch.ordinal);
  writer.boolean(batch.open.has_value());
  if (batch.open) {
    write(writer, batch.open->id);
    writer.u32(batch.open->portions);
    writer.u64(batch.open->index);
    write(writer, batch.newest);
  }
  writer.u32(static_cast<std::uint32_t>(batch.vectors.size()));
  for (const auto& [name, vector] : batch.vectors) {
    write(writer, name);
    writer.u64(vector->made);
    for (const BatchArrayPtr& array : vector->slices) writer.boolean(array != nullptr);
  }
}

Bytes head_of(const ShardData& data, const FrozenSlices& slices) {
  Writer writer;
  writer.u64(data.applied);
  writer.u64(data.round);
  writer.boolean(data.definition.has_value());
  if (data.definition) {
    write(writer, *data.definition);
    writer.u64(data.rate_ordinal);
    for (const double rate : data.rates) writer.f64(rate);
    write_versions(writer, slices);
  }
  writer.u32(static_cast<std::uint32_t>(data.clients.size()));
  for (const auto& [id, client] : data.clients) {
    writer.u64(id);
    write(writer, client);
  }
  write(writer, data.staleness);
  write(writer, data.ledger);
  writer.u32(static_cast<std::uint32_t>(data.collected.size()));
  for (const auto& [client, command] : data.collected) {
    writer.u64(client);
    writer.u64(command->size());
  }
  writer.u32(static_cast<std::uint32_t>(data.cuts.size()));
  for (const auto& [id, cut] : data.cuts) {
    writer.u64(id);
    writer.u64(cut->index);
    writer.u64(cut->round);
    write(writer, cut->clients);
    writer.u32(static_cast<std::uint32_t>(cut->slices.size()));
    write_versions(writer, cut->slices);
  }
  write_batch(writer, data.batch);
  return writer.take();
}

class ShardImage final : public StateImage {
 public:
  explicit ShardImage(const ShardData& data)
      : index_(data.applied),
        slices_(data.freeze()),
        cuts_(data.cuts),
        vectors_(data.batch.vectors) {
    head_ = head_of(data, slices_);
    for (const auto& [client, command] : data.collected) collected_.push_back(command);
  }

  std::uint64_t index() const override { return index_; }

  void save(SnapshotSink& sink) const override {
    Writer begin;
    begin.u16(kStateVersion);
    begin.bytes(head_);
    sink.write(begin.view());
    for (const auto& command : collected_) sink.write(*command);
    for (const auto& slice : slices_) {
      if (!slice) continue;
      for (const BlockPtr& block : slice->blocks) sink.write(std::as_bytes(block->all()));
    }
    for (const auto& [id, cut] : cuts_) {
      for (std::size_t i = 0; i < cut->slices.size(); ++i) {
        if (cut->slices[i]) save_cut(cut->slices[i]->blocks, slices_[i]->blocks, sink);
      }
    }
    for (const auto& [name, vector] : vectors_) {
      for (const BatchArrayPtr& array : vector->slices) {
        if (array) sink.write(array->bytes());
      }
    }
  }

 private:
  // What has changed since the cut. A block of a cut is never changed in place, so that one that is
  // still the slice's own has not changed.
  static void save_cut(const FrozenBlocks& then, const FrozenBlocks& now, SnapshotSink& sink) {
    for (std::size_t i = 0; i < then.size(); ++i) {
      const auto changed = static_cast<std::byte>(then[i] == now[i] ? 0 : 1);
      sink.write(std::span(&changed, 1));
      if (changed != std::byte{0}) sink.write(std::as_bytes(then[i]->all()));
    }
  }

  std::uint64_t index_;
  FrozenSlices slices_;
  Cuts cuts_;
  std::map<optim::VectorName, BatchVectorPtr> vectors_;
  Bytes head_;
  std::vector<std::shared_ptr<const Bytes>> collected_;
};

// So many bytes; takes memory as they come, since their number may be wrong.
Bytes read_bytes(SnapshotSource& source, std::uint64_t count) {
  Bytes bytes;
  while (bytes.size() < count) {
    const std::size_t at = bytes.size();
    bytes.resize(at + std::min<std::uint64_t>(kPiece, count - at));
    source.read(std::span(bytes).subspan(at));
  }
  return bytes;
}

FrozenSlices read_versions(Reader& reader, std::size_t count) {
  FrozenSlices slices(count);
  for (auto& slice : slices) {
    if (!reader.boolean()) continue;
    slice.emplace();
    slice->version = reader.u64();
    if (slice->version > kMaxVersion) reader.refuse("no slice has had so many updates");
  }
  return slices;
}

// What the head says, and what follows it.
struct Head {
  ShardData data;
  FrozenSlices slices;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> collected;  // client, bytes
  std::vector<std::pair<std::uint64_t, ShardCut>> cuts;            // id, without blocks
  struct Vector {
    optim::VectorName name;
    std::uint64_t made = 0;
    std::vector<bool> slices;  // that follow
  };
  std::vector<Vector> vectors;
};

void read_clients(Reader& reader, ShardData& data) {
  const std::uint32_t count = reader.count(8 + kLeastRecord);
  if (count > kMaxClients) reader.refuse("more clients than a shard knows");
  for (std::uint32_t i = 0; i < count; ++i) {
    ClientRecord& client = data.clients[reader.u64()];
    client = read_client_record(reader);
  }
  if (data.clients.size() != count) reader.refuse("a client is there twice");
}

void read_cuts(Reader& reader, Head& head) {
  const std::uint32_t count = reader.count(3 * 8 + 2 * 4);
  if (count > kMaxCuts) reader.refuse("more cuts than a shard keeps");
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& [id, cut] = head.cuts.emplace_back();
    id = reader.u64();
    cut.index = reader.u64();
    cut.round = reader.u64();
    cut.clients = read_last_pushes(reader);
    const std::uint32_t slices = reader.u32();
    if (slices > head.slices.size()) reader.refuse("a cut of slices that aren't there");
    cut.slices = read_versions(reader, slices);
    for (std::size_t k = 0; k < slices; ++k) {
      if (cut.slices[k] && !head.slices[k]) reader.refuse("a cut of a slice without values");
    }
  }
}

void read_batch(Reader& reader, Head& head) {
  if (!reader.boolean()) return;
  if (!head.data.definition) reader.refuse("vectors of a shard without a definition");
  const auto& definitions = head.data.definition->slices;
  BatchData& batch = head.data.batch;
  batch.element = read_element(reader);
  batch.ordinal = reader.u64();
  if (reader.boolean()) {
    batch.open.emplace();
    batch.open->id = read_evaluation_id(reader);
    batch.open->portions = reader.u32();
    batch.open->index = reader.u64();
    batch.newest = read_evaluation_id(reader);
    if (batch.open->portions == 0) reader.refuse("an evaluation without portions");
  }
  head.vectors.resize(reader.count(kVectorNameBytes + 8 + definitions.size()));
  for (std::size_t i = 0; i < head.vectors.size(); ++i) {
    Head::Vector& vector = head.vectors[i];
    vector.name = read_vector_name(reader);
    if (i > 0 && !(head.vectors[i - 1].name < vector.name)) reader.refuse("vectors don't ascend");
    vector.made = reader.u64();
    for (const SliceDefinition& slice : definitions) {
      vector.slices.push_back(reader.boolean());
      if (vector.slices.back() && !slice.rule) reader.refuse("a vector of a statistic");
    }
  }
}

BatchVectorPtr read_vector(SnapshotSource& source, const Head::Vector& from, const Head& head,
                           const std::shared_ptr<ArrayPool>& pool) {
  auto vector = std::make_shared<BatchVector>();
  vector->made = from.made;
  for (std::size_t i = 0; i < from.slices.size(); ++i) {
    vector->slices.emplace_back();
    if (!from.slices[i]) continue;
    auto array = std::make_shared<BatchArray>(*head.data.batch.element,
                                              head.data.definition->slices[i].size, pool);
    source.read(array->bytes());
    vector->slices.back() = std::move(array);
  }
  return vector;
}

Head read_head(std::span<const std::byte> bytes, std::uint16_t version,
               std::uint64_t memory_limit) {
  Reader reader(bytes, "head of a shard's state");
  Head head;
  ShardData& data = head.data;
  data.applied = reader.u64();
  data.round = reader.u64();
  if (reader.boolean()) {
    data.definition = read_definition(reader);
    if (memory_of(*data.definition) > memory_limit) reader.refuse("more values than have room");
    data.rate_ordinal = reader.u64();
    for (std::size_t i = 0; i < data.definition->slices.size(); ++i) {
      data.rates.push_back(reader.f64());
    }
    head.slices = read_versions(reader, data.definition->slices.size());
  }
  read_clients(reader, data);
  data.staleness = read_staleness(reader);
  data.ledger = read_ledger(reader);
  head.collected.resize(reader.count(16));
  for (auto& [client, size] : head.collected) {
    client = reader.u64();
    size = reader.u64();
  }
  read_cuts(reader, head);
  if (version >= kWithBatch) read_batch(reader, head);
  reader.end();
  return head;
}

// A push that waits for its round has to fit the slices, since nobody asks again when it is
// applied.
void check_collected(std::span<const std::byte> command, std::uint64_t client, const Head& head) {
  Reader reader(command, "a push in a shard's state");
  reader.version(kCommandVersion);
  if (reader.u8() != static_cast<std::uint8_t>(CommandNumber::push)) reader.refuse("it is no push");
  const Push push = read_push(reader);
  if (push.client != client) reader.refuse("it is of another client");
  if (push.samples == 0 && !push.slices.empty()) reader.refuse("a gradient of 0 samples");
  for (const PushedSlice& pushed : push.slices) {
    if (pushed.slice >= head.slices.size() || !head.slices[pushed.slice] ||
        pushed.values.size() != head.data.definition->slices[pushed.slice].size) {
      reader.refuse("slice " + std::to_string(pushed.slice) + " has another shape");
    }
  }
}

BlockPtr read_block(SnapshotSource& source, const SliceDefinition& slice, std::size_t stripe) {
  const std::size_t arrays = 1 + (slice.rule ? optim::slots(*slice.rule).size() : 0);
  auto block = std::make_unique<Block>(stripe_size(slice.size, stripe), arrays);
  source.read(std::as_writable_bytes(block->all()));
  return BlockPtr(block.release());
}

std::shared_ptr<const ShardCut> read_cut(SnapshotSource& source, ShardCut cut, const Head& head) {
  for (std::size_t i = 0; i < cut.slices.size(); ++i) {
    if (!cut.slices[i]) continue;
    const FrozenBlocks& now = head.slices[i]->blocks;
    for (std::size_t stripe = 0; stripe < now.size(); ++stripe) {
      std::byte changed{};
      source.read(std::span(&changed, 1));
      if (changed > std::byte{1}) throw UsageError("a shard's state: a block neither same nor new");
      cut.slices[i]->blocks.push_back(
          changed == std::byte{0} ? now[stripe]
                                  : read_block(source, head.data.definition->slices[i], stripe));
    }
  }
  return std::make_shared<const ShardCut>(std::move(cut));
}

}  // namespace

std::shared_ptr<const StateImage> ShardState::image() const {
  return std::make_shared<ShardImage>(data_);
}

void ShardState::load(SnapshotSource& source) {
  std::byte begin[2 + 8];
  source.read(begin);
  Reader reader(begin, "a shard's state");
  const std::uint16_t version = reader.version(kStateVersion);
  Head head = read_head(read_bytes(source, reader.u64()), version, memory_limit_);
  ShardData& data = head.data;
  for (const auto& [client, size] : head.collected) {
    auto command = std::make_shared<const Bytes>(read_bytes(source, size));
    check_collected(*command, client, head);
    data.collected.emplace(client, std::move(command));
  }
  for (std::size_t i = 0; i < head.slices.size(); ++i) {
    if (!head.slices[i]) continue;
    const SliceDefinition& slice = data.definition->slices[i];
    for (std::size_t stripe = 0; stripe < stripes_of(slice.size); ++stripe) {
      head.slices[i]->blocks.push_back(read_block(source, slice, stripe));
    }
  }
  for (auto& [id, cut] : head.cuts) data.cuts.emplace(id, read_cut(source, std::move(cut), head));
  for (const Head::Vector& vector : head.vectors) {
    data.batch.vectors.emplace(vector.name, read_vector(source, vector, head, arrays_));
  }
  for (auto& slice : head.slices) {
    data.slices.push_back(
        slice ? std::make_shared<ShardSlice>(slice->version, std::move(slice->blocks)) : nullptr);
  }
  const std::lock_guard lock(mutex_);
  std::swap(data_, data);
}

}  // namespace convoy::server
