#include "server/coordinator/key_state.h"

#include <utility>

#include "convoy/base/error.h"
#include "server/wire/reader.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::uint16_t kKeyStateVersion = 1;  // of records and of the state
constexpr std::uint64_t kMaxState = std::uint64_t{1} << 32;

class KeyImage final : public StateImage {
 public:
  KeyImage(std::uint64_t index, Bytes bytes) : index_(index), bytes_(std::move(bytes)) {}
  std::uint64_t index() const override { return index_; }
  void save(SnapshotSink& sink) const override {
    Writer size;
    size.u64(bytes_.size());
    sink.write(size.view());
    sink.write(bytes_);
  }

 private:
  std::uint64_t index_;
  Bytes bytes_;
};

Bytes copied(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

Bytes encode(std::uint64_t term, std::span<const Write> writes) {
  Writer writer;
  writer.u16(kKeyStateVersion);
  writer.u64(term);
  writer.u32(static_cast<std::uint32_t>(writes.size()));
  for (const Write& write : writes) {
    writer.text(write.key);
    writer.boolean(write.value.has_value());
    if (write.value) writer.bytes(*write.value);
  }
  return writer.take();
}

StoreRecord decode_store_record(std::span<const std::byte> bytes) {
  Reader reader(bytes, "record of the coordinator's store");
  reader.version(kKeyStateVersion);
  StoreRecord record;
  record.term = reader.u64();
  record.writes.resize(reader.count(4 + 1));
  for (Write& write : record.writes) {
    write.key = reader.text(StateStore::kMaxKey);
    if (reader.boolean()) write.value = copied(reader.bytes());
  }
  reader.end();
  return record;
}

Bytes KeyState::apply(std::uint64_t index, std::span<const std::byte> bytes) {
  if (index != applied_ + 1) {
    throw UsageError("record " + std::to_string(index) + " was given to a store that expects " +
                     std::to_string(applied_ + 1));
  }
  StoreRecord record = decode_store_record(bytes);
  applied_ = index;
  term_ = record.term;
  for (Write& write : record.writes) {
    if (write.value) {
      keys_[write.key] = {index, std::move(*write.value)};
    } else {
      keys_.erase(write.key);
    }
  }
  return {};
}

std::shared_ptr<const StateImage> KeyState::image() const {
  Writer writer;
  writer.u16(kKeyStateVersion);
  writer.u64(applied_);
  writer.u64(term_);
  writer.u32(static_cast<std::uint32_t>(keys_.size()));
  for (const auto& [key, value] : keys_) {
    writer.text(key);
    writer.u64(value.revision);
    writer.bytes(value.bytes);
  }
  return std::make_shared<KeyImage>(applied_, writer.take());
}

void KeyState::load(SnapshotSource& source) {
  Bytes size(8);
  source.read(size);
  const auto count = get_little_endian<std::uint64_t>(size.data());
  if (count > kMaxState) throw UsageError("a snapshot of a coordinator's store that is too large");
  // Piece by piece: a size that isn't true takes no memory that the file doesn't fill.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  Bytes bytes;
  while (bytes.size() < count) {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + std::min<std::uint64_t>(kPiece, count - begin));
    source.read(std::span(bytes).subspan(begin));
  }
  Reader reader(bytes, "snapshot of the coordinator's store");
  reader.version(kKeyStateVersion);
  KeyState loaded;
  loaded.applied_ = reader.u64();
  loaded.term_ = reader.u64();
  const std::uint32_t keys = reader.count(4 + 8 + 8);
  for (std::uint32_t i = 0; i < keys; ++i) {
    std::string key = reader.text(StateStore::kMaxKey);
    const std::uint64_t revision = reader.u64();
    loaded.keys_[std::move(key)] = {revision, copied(reader.bytes())};
  }
  reader.end();
  *this = std::move(loaded);
}

}  // namespace convoy::server::coordinator
