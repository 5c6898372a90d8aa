// Words of the replication protocol (docs/server-replication.md).
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "server/wire/writer.h"

namespace convoy::server::replication {

// Of a command in a shard's log: 1, 2, 3, ...; 0 is before the first.
using Index = std::uint64_t;
// Of a configuration; every command carries that in which it got its index. 0 is before the first.
using Epoch = std::uint64_t;
// Microseconds since any moment. Time comes with the events, and safety doesn't depend on it:
// clocks may stand still, jump or differ.
using Time = std::uint64_t;

constexpr Time milliseconds(std::uint64_t count) { return count * 1000; }

// One life of one node. A node that is started again is another member: what was said to, or by,
// its earlier life doesn't count any more.
struct Member {
  std::uint64_t node = 0;         // 1, 2, ...; 0: nobody
  std::uint64_t incarnation = 0;  // never the same twice for a node, whatever happens to its disk
  bool operator==(const Member&) const = default;
  explicit operator bool() const { return node != 0; }
};

// Who serves a shard. There is one configuration per epoch, since each is made by a compare-and-set
// on the one before, and every command that was ever committed is in the log of each member of the
// newest one.
struct Configuration {
  std::uint32_t shard = 0;
  Epoch epoch = 0;  // 0: the shard has never been served
  Member primary;
  Member backup;  // or nobody
  bool operator==(const Configuration&) const = default;
  bool has(const Member& member) const { return member && (member == primary || member == backup); }
};

// The last command of a log. Of two logs of a shard the one with the larger position holds all that
// the other one may have committed.
struct Position {
  Epoch epoch = 0;
  Index index = 0;
  auto operator<=>(const Position&) const = default;
};

// When a command counts as written on a node.
enum class Durability : std::uint8_t {
  replicated = 0,  // when it survives the end of the process
  synced = 1,      // when it survives a power cut
};

// A command's bytes, in memory that lives as long as any copy of this.
class Command {
 public:
  Command() = default;
  template <typename B>
  requires std::is_same_v<std::remove_const_t<B>, Bytes> Command(std::shared_ptr<B> bytes)
      : bytes_(*bytes), owner_(std::move(bytes)) {}  // NOLINT
  // Bytes that `owner` keeps.
  Command(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  explicit operator bool() const { return owner_ != nullptr; }
  const std::span<const std::byte>& operator*() const { return bytes_; }
  const std::span<const std::byte>* operator->() const { return &bytes_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  void reset() { *this = {}; }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

struct Entry {
  Index index = 0;
  Epoch epoch = 0;
  Command command;
};

// Who asked for a command, as the host knows it; it gets the reply.
using Token = std::uint64_t;

}  // namespace convoy::server::replication
