// What nodes of a shard and the authority say to each other. Any message may be lost, doubled,
// delayed or overtaken by others; each is safe to hear at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "server/replication/log_shape.h"
#include "server/replication/types.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server::replication {

// Of everything here. Nodes of different versions don't replicate to each other.
inline constexpr std::uint16_t kReplicationVersion = 1;

// --- between a primary and its backup or joiner ---
// `session` numbers what a joiner asked for; answers to an earlier one don't count.

// Joiner to primary: what it has.
struct JoinRequest {
  std::uint16_t version = kReplicationVersion;
  std::uint64_t session = 0;
  Epoch epoch = 0;             // the newest that it knows of
  Index applied = 0;           // it can't go back behind this command
  Index last = 0;              // of its log
  std::vector<EpochRun> runs;  // of its log, oldest first; never empty
  bool operator==(const JoinRequest&) const = default;
};

// Primary to joiner.
struct JoinAnswer {
  enum class Kind : std::uint8_t {
    tail = 0,      // truncate the log after `keep`; the rest follows
    snapshot = 1,  // pieces of a snapshot follow, then the rest
    refused = 2,   // not now, or never: see `reason`
  };
  Configuration configuration;
  std::uint64_t session = 0;
  Kind kind = Kind::refused;
  Index keep = 0;
  std::string reason;
  bool operator==(const JoinAnswer&) const = default;
};

// Primary to joiner: bytes `offset` to `offset + bytes.size() - 1` of a snapshot that ends with
// `at`.
struct SnapshotPiece {
  Configuration configuration;
  std::uint64_t session = 0;
  Position at;
  std::uint64_t total = 0;
  std::uint64_t offset = 0;
  Bytes bytes;
  bool operator==(const SnapshotPiece&) const = default;
};

// Joiner to primary: it has the bytes before `received`; `installed`: its log now begins after
// `at`.
struct PieceAck {
  Epoch epoch = 0;
  std::uint64_t session = 0;
  std::uint64_t received = 0;
  bool installed = false;
  bool operator==(const PieceAck&) const = default;
};

// Primary to backup or joiner: commands, and up to where they are committed; without commands a
// heartbeat. They follow each other, after `before`.
struct Append {
  Configuration configuration;
  std::uint64_t session = 0;
  Position before;
  Index committed = 0;
  std::vector<Entry> entries;
};

// Back: what it has written and synced; `last` is the end of its log, which may be in memory yet.
struct AppendAck {
  Epoch epoch = 0;
  std::uint64_t session = 0;
  Index written = 0;
  Index synced = 0;
  Index last = 0;
  bool gap = false;  // it can't use what came: go on after `last`
  bool operator==(const AppendAck&) const = default;
};

// Back: it knows of a newer epoch, or can't write.
struct Refusal {
  enum class Kind : std::uint8_t { old_epoch = 0, unable = 1 };
  Kind kind = Kind::old_epoch;
  Epoch epoch = 0;
  std::uint64_t session = 0;
  bool operator==(const Refusal&) const = default;
};

// --- between a node and the authority ---

enum class Role : std::uint8_t { idle = 0, joiner = 1, backup = 2, primary = 3 };

// By which the authority knows that a message is an answer to one of its own, and so when its
// sender was alive at the earliest; nodes copy the last one that they got.
struct Stamp {
  std::uint64_t authority = 0;  // which one, in which life
  Time time = 0;                // of its own
  bool operator==(const Stamp&) const = default;
};

// Node to authority, at intervals: it lives, and what it is.
struct Report {
  Stamp echo;
  Epoch epoch = 0;
  Role role = Role::idle;
  bool able = true;   // can write its log
  bool whole = true;  // as it was started: nothing was missing that it had ever acknowledged
  Position position;  // as it was started
  Index applied = 0;  // now, and so is `last`
  Index last = 0;
  bool operator==(const Report&) const = default;
};

// Primary to authority: the configuration that it wants after that of epoch `next.epoch - 1`.
struct Change {
  Stamp echo;
  Configuration next;
  bool operator==(const Change&) const = default;
};

// Authority to node: the newest configuration that it knows; answers both.
struct Newest {
  Stamp stamp;
  Configuration configuration;
  bool operator==(const Newest&) const = default;
};

using Body = std::variant<JoinRequest, JoinAnswer, SnapshotPiece, PieceAck, Append, AppendAck,
                          Refusal, Report, Change, Newest>;

// The authority is addressed as Member{}: there is one for those who ask.
struct Message {
  std::uint32_t shard = 0;
  Member from;
  Member to;
  Body body;
};

// The formats are in docs/server-replication.md. decode() throws UsageError for bytes that encode()
// can't have made.
Bytes encode(const Message& message);
Message decode(std::span<const std::byte> bytes);

// A part of them, for others' formats.
void write(Writer& to, const Configuration& configuration);
Configuration read_configuration(Reader& from);  // throws UsageError

}  // namespace convoy::server::replication
