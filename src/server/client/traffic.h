// What a client has sent and received.
#pragma once

#include <cstdint>
#include <mutex>

#include "convoy/server/client.h"

namespace convoy::server::client {

// Threads: any.
class Traffic {
 public:
  enum class Kind : std::uint8_t { other, push, fetch, batch };

  explicit Traffic(std::size_t shards) {
    sums_.pushed_by_shard.resize(shards);
    sums_.fetched_by_shard.resize(shards);
  }

  // Of every attempt.
  void sent(Kind kind, std::uint32_t shard, std::uint64_t bytes) {
    if (kind != Kind::push && kind != Kind::batch) return;
    const std::lock_guard lock(mutex_);
    if (kind == Kind::batch) {
      sums_.batch_sent_bytes += bytes;
      ++sums_.batch_requests;
      return;
    }
    sums_.pushed_bytes += bytes;
    sums_.pushed_by_shard[shard] += bytes;
  }
  void received(Kind kind, std::uint32_t shard, std::uint64_t bytes) {
    if (kind != Kind::fetch && kind != Kind::batch) return;
    const std::lock_guard lock(mutex_);
    if (kind == Kind::batch) {
      sums_.batch_received_bytes += bytes;
      return;
    }
    sums_.fetched_bytes += bytes;
    sums_.fetched_by_shard[shard] += bytes;
  }
  void repeated() {
    const std::lock_guard lock(mutex_);
    ++sums_.retries;
  }
  void done(Kind kind) {
    const std::lock_guard lock(mutex_);
    sums_.pushes += kind == Kind::push;
    sums_.fetches += kind == Kind::fetch;
  }
  ClientTraffic sums() const {
    const std::lock_guard lock(mutex_);
    return sums_;
  }

 private:
  mutable std::mutex mutex_;
  ClientTraffic sums_;
};

}  // namespace convoy::server::client
