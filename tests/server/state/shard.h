// A shard to give commands to.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "server/state/shard_state.h"

namespace convoy::server::test {

// Values that outlive the commands made of them.
inline EncodedValues encoded(const std::vector<float>& values) {
  return {Encoding::f32, values.size(), std::as_bytes(std::span(values))};
}

class MemorySink : public SnapshotSink {
 public:
  void write(std::span<const std::byte> bytes) override {
    this->bytes.insert(this->bytes.end(), bytes.begin(), bytes.end());
  }
  Bytes bytes;
};

class MemorySource : public SnapshotSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : left(bytes) {}
  void read(std::span<std::byte> to) override {
    if (to.size() > left.size()) throw Failure("the snapshot is cut short");
    std::copy_n(left.begin(), to.size(), to.begin());
    left = left.subspan(to.size());
  }
  std::span<const std::byte> left;
};

inline Bytes saved(const StateMachine& machine) {
  MemorySink sink;
  machine.save(sink);
  return std::move(sink.bytes);
}

// The next command of a machine.
inline Reply give(ShardState& shard, const Bytes& command) {
  return decode_reply(shard.apply(shard.applied() + 1, command));
}

inline Definition definition(std::vector<SliceDefinition> slices) {
  Definition result;
  result.slices = std::move(slices);
  return result;
}

inline SliceDefinition slice(const std::string& name, std::uint64_t size,
                             std::optional<optim::Rule> rule = optim::Sgd{.lr = 1}) {
  return {name, size, 0, size, std::move(rule)};
}

// A push of one slice.
inline Bytes push(std::uint64_t client, std::uint64_t sequence, std::uint64_t version,
                  const std::vector<float>& gradient, std::uint64_t samples = 1,
                  std::uint32_t slice = 0, std::vector<std::uint64_t> ids = {},
                  std::uint64_t progress = 0) {
  Push push{client,   sequence,       samples,
            progress, std::move(ids), {{slice, version, encoded(gradient)}}};
  return push_command(push);
}

inline Bytes initialize(std::uint32_t slice, const std::vector<float>& values,
                        std::uint64_t version = 0) {
  return initialize_command({{slice, version, encoded(values), {}}});
}

inline std::vector<float> values(const ShardState& shard, std::uint32_t slice, std::uint64_t size,
                                 std::uint32_t array = 0) {
  std::vector<float> result(size);
  shard.fetch({slice, array, 0, size}, Encoding::f32, std::as_writable_bytes(std::span(result)));
  return result;
}

inline std::vector<float> cut_values(const ShardState& shard, std::uint64_t cut,
                                     std::uint32_t slice, std::uint64_t size) {
  std::vector<float> result(size);
  shard.fetch_cut(cut, {slice, 0, 0, size}, Encoding::f32,
                  std::as_writable_bytes(std::span(result)));
  return result;
}

// A shard of one vector, with one member: client 1.
inline std::unique_ptr<ShardState> shard_of(const Definition& definition,
                                            const std::vector<float>& values) {
  auto shard = std::make_unique<ShardState>();
  EXPECT_EQ(give(*shard, define_command(definition)).status, Status::done);
  EXPECT_EQ(give(*shard, initialize(0, values)).status, Status::done);
  EXPECT_EQ(give(*shard, join_command(1, "replica-1")).status, Status::done);
  return shard;
}

}  // namespace convoy::server::test
