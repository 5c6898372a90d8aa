// The bytes of a shard's state, as another node sends it.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/state/shard_state.h"

namespace {

using namespace convoy::server;

struct Source : SnapshotSource {
  explicit Source(std::span<const std::byte> bytes) : left(bytes) {}
  void read(std::span<std::byte> to) override {
    if (to.size() > left.size()) throw convoy::Failure("cut short");
    std::copy_n(left.begin(), to.size(), to.begin());
    left = left.subspan(to.size());
  }
  std::span<const std::byte> left;
};

struct Nowhere : SnapshotSink {
  void write(std::span<const std::byte>) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ShardState shard(1 << 16);
  Source source(std::as_bytes(std::span(data, size)));
  try {
    shard.load(source);
  } catch (const convoy::UsageError&) {
    return 0;
  } catch (const convoy::Failure&) {
    return 0;
  }
  // What was loaded can be used: a round that waits is completed when all have left.
  Nowhere nowhere;
  shard.save(nowhere);
  const ShardStatus status = shard.status();
  for (const auto& name : shard.batch().vectors) {
    const std::pair pair{name, name};
    shard.dots({&pair, 1});
  }
  std::uint64_t index = shard.applied();
  if (index > UINT64_MAX - status.clients.size()) return 0;
  for (const auto& client : status.clients) shard.apply(++index, leave_command(client.id));
  return 0;
}
