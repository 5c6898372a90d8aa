// What a node or the authority wants done. They do no input or output themselves.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "server/replication/messages.h"
#include "server/replication/types.h"

namespace convoy::server::replication {

// --- the log ---
// A host carries these out one after another and reports by their tickets. When one fails for want
// of room it drops those that wait, without a report, and calls Node::log_failed().

// Write commands: Node::log_written(ticket) when they survive the end of the process.
struct WriteLog {
  std::uint64_t ticket = 0;
  std::vector<Entry> entries;
};
// Remove the commands after this one, if there are any, and report as above.
struct TruncateLog {
  std::uint64_t ticket = 0;
  Index after = 0;
};
// Node::log_synced(ticket) when all up to that ticket survives a power cut.
struct SyncLog {
  std::uint64_t ticket = 0;
};
// Commands before this one aren't needed any more.
struct CutLog {
  Index before = 0;
};

// --- messages ---

struct Send {
  Message message;
};
// Send an Append to which the host adds commands `first` to `last`, which it has in the log or in
// memory, since it was told to write them.
struct SendEntries {
  Message message;
  Index first = 0;
  Index last = 0;
};
// Send a SnapshotPiece to which the host adds `size` bytes of this transfer, from its offset.
struct SendPiece {
  Message message;
  std::uint64_t transfer = 0;
  std::uint64_t size = 0;
};

// --- the state machine ---

// Apply the next commands, up to this one.
struct Apply {
  Index through = 0;
};
// Give the asker what the command `index` returned when it was applied.
struct Reply {
  Token token = 0;
  Index index = 0;
};
// Tell the asker that this node won't reply. What became of the command is known only when
// `unknown` is false: then nothing.
struct Reject {
  Token token = 0;
  bool unknown = false;
  Member primary;  // whom to ask, if known
  std::string reason;
};

// --- snapshots that are sent; one at a time ---

// Hold a snapshot (of what is applied by now, or an earlier one that the log still follows) until
// CloseSnapshot: Node::snapshot_opened() or snapshot_failed(). Each one is closed once.
struct OpenSnapshot {
  std::uint64_t transfer = 0;
};
struct CloseSnapshot {
  std::uint64_t transfer = 0;
};

// --- snapshots that are received; one at a time ---

// Keep these bytes, which follow the ones before; the first ones open the transfer.
struct StorePiece {
  std::uint64_t transfer = 0;
  Bytes bytes;
};
// All are here: check them, load the state, put the snapshot in the place of the log, all of it or
// nothing and surviving a power cut; then Node::snapshot_installed(). Ends the transfer.
struct InstallSnapshot {
  std::uint64_t transfer = 0;
  std::uint64_t ticket = 0;  // it is one of the steps of the log
  Position at;
};
// The transfer has ended without; remove what came.
struct DiscardSnapshot {
  std::uint64_t transfer = 0;
};

// --- the rest ---

// Remember on the disk that this node is whole: from now on a configuration builds on what it has.
struct Admitted {
  Epoch epoch = 0;
};
// For logs and status.
struct RoleChanged {
  Role role = Role::idle;
  Configuration configuration;
  std::string why;
};

using Effect = std::variant<WriteLog, TruncateLog, SyncLog, CutLog, Send, SendEntries, SendPiece,
                            Apply, Reply, Reject, OpenSnapshot, CloseSnapshot, StorePiece,
                            InstallSnapshot, DiscardSnapshot, Admitted, RoleChanged>;
// To be carried out in this order.
using Effects = std::vector<Effect>;

}  // namespace convoy::server::replication
