// Commands of a shard: each 32-bit length, then so many bytes. Whatever they say, the shard
// replies, and what it saves loads as the same state.
#include <cstdint>
#include <cstring>
#include <span>

#include "server/state/shard_state.h"

namespace {

using namespace convoy::server;

struct Sink : SnapshotSink {
  void write(std::span<const std::byte> piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  Bytes bytes;
};

struct Source : SnapshotSource {
  explicit Source(std::span<const std::byte> bytes) : left(bytes) {}
  void read(std::span<std::byte> to) override {
    if (to.size() > left.size()) __builtin_trap();
    std::copy_n(left.begin(), to.size(), to.begin());
    left = left.subspan(to.size());
  }
  std::span<const std::byte> left;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ShardState shard(1 << 16);
  auto left = std::as_bytes(std::span(data, size));
  while (left.size() >= 4) {
    std::uint32_t length;
    std::memcpy(&length, left.data(), 4);
    left = left.subspan(4);
    const auto command = left.first(std::min<std::size_t>(length, left.size()));
    left = left.subspan(command.size());
    const std::uint64_t index = shard.applied() + 1;
    decode_reply(shard.apply(index, command));
    if (shard.applied() != index) __builtin_trap();
  }
  Sink first;
  shard.save(first);
  ShardState copy(1 << 16);
  Source source(first.bytes);
  copy.load(source);
  Sink second;
  copy.save(second);
  if (first.bytes != second.bytes) __builtin_trap();
  return 0;
}
