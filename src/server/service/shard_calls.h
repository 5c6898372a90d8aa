// What clients ask a server for one of its shards: methods of the transport and their bytes
// (docs/server-format.md). Every request begins with u16 version (kServiceVersion) and u32 shard;
// every answer with u16 version. Decoding throws UsageError for bytes that encoding can't have
// made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/service/job.h"
#include "server/state/shard_state.h"
#include "server/transport/message.h"

namespace convoy::server::calls {

// What a request to a shard begins with, written, and read: the shard. What was written, to be
// sent.
Writer begin_request(std::uint32_t shard);
std::uint32_t begin_request(Reader& reader);
transport::Message message_of(Writer& writer);

// A command (state/commands.h), given to the shard's log. Request: the command's bytes follow.
// Answered when the command is committed and applied, by whoever is primary.
inline constexpr std::string_view kCommand = "shard.command";
// Values as they are now. Request: FetchRequest. Answered by a primary.
inline constexpr std::string_view kFetch = "shard.fetch";
// Makes a cut when, of each client named, the last push applied is the one named; pushes of these
// clients that come later wait until then. Request: CutRequest.
inline constexpr std::string_view kCut = "shard.cut";
// What the shard says of itself. Request: nothing more. Answered by any node: ShardReport.
inline constexpr std::string_view kReport = "shard.status";
// Messages of replication (replication/messages.h) between servers, of any shards. Request:
// version, then bytes (u64 length, bytes) of each message. Answered at once, empty.
inline constexpr std::string_view kReplicate = "server.replicate";

// In front of every answer of the first four.
enum class Outcome : std::uint8_t {
  done = 0,
  not_primary = 1,  // ask another one; nothing was done
  unknown = 2,      // it may have been done or not: ask again, with the same numbers
  refused = 3,      // nothing was done, and would not be: `reason`
  busy = 4,         // nothing was done: ask again, later
};
struct Answered {
  Outcome outcome = Outcome::done;
  std::uint64_t primary = 0;  // server that should be asked; 0: not known
  std::string reason;
  transport::Message content;  // if done
};
inline constexpr std::size_t kMaxReason = 4096;  // bytes; longer ones are cut off
transport::Message encode(const Answered& answer);
// The content shares the message's bytes.
Answered decode_answered(const transport::Message& message);

// The shard that a request of the first four is for.
std::uint32_t shard_of(const transport::Message& request);

// The request of a command, and the command in one; neither copies its bytes.
transport::Message command_request(std::uint32_t shard, const transport::Message& command);
transport::Message decode_command(const transport::Message& request);

transport::Message report_request(std::uint32_t shard);

struct FetchRequest {
  std::uint32_t shard = 0;
  std::uint64_t cut = 0;  // of this cut (its id); 0: as they are now
  Encoding encoding = Encoding::f32;
  std::vector<FetchRange> ranges;
  // Of an array as it was left by so many updates or more: where a range's slice has this version
  // already, its values are left out. Empty: none is left out. Else one for each range.
  std::vector<std::uint64_t> unless;
};
// At most so many elements in all.
inline constexpr std::uint64_t kMaxFetch = std::uint64_t{1} << 40;
transport::Message encode(const FetchRequest& request);
FetchRequest decode_fetch(const transport::Message& message);
// Content of the answer: u64 index applied, u32 number of ranges, then for each u64 version and
// u8 whether values follow, and behind all of these the values themselves, one range after another.
// `values` shares the message's bytes.
struct Fetched {
  std::uint64_t index = 0;
  std::vector<std::uint64_t> versions;
  std::vector<bool> sent;
  transport::Message values;
};
transport::Message encode(const Fetched& fetched);
Fetched decode_fetched(const transport::Message& content);

struct CutRequest {
  std::uint32_t shard = 0;
  std::uint64_t cut = 0;           // its id
  std::uint64_t milliseconds = 0;  // to wait for these pushes, at most 60 s; then it is refused
  LastPushes until;                // of each client
};
transport::Message encode(const CutRequest& request);
CutRequest decode_cut(const transport::Message& message);
// Content: how far each client is in the cut.
transport::Message encode_pushes(const LastPushes& pushes);
LastPushes decode_pushes(const transport::Message& content);

// In rounds: the largest number of a push of nothing, with which a replica completes rounds that
// some shards are behind. Its first one of a mini-batch has the next number, on all of them.
inline constexpr std::uint64_t kCatchUp = 4096;

// Of a batch optimizer's vectors.
struct VectorReport {
  std::uint64_t vectors = 0;         // that are whole
  std::uint64_t vector_bytes = 0;    // of all, in memory
  std::uint64_t group_bytes = 0;     // of sums of portions that aren't sealed
  std::uint64_t portions_added = 0;  // of the newest evaluation
  bool operator==(const VectorReport&) const = default;
};

struct ShardReport {
  std::uint64_t server = 0;
  std::uint8_t role = 0;  // replication::Role; primary from when it serves
  std::uint64_t epoch = 0;
  std::uint64_t primary = 0, backup = 0;  // servers
  std::uint64_t applied = 0;              // index of the last command
  std::uint64_t backup_lag = 0;           // commands that the backup has not acknowledged
  std::uint64_t log_bytes = 0;            // on the disk
  std::uint64_t memory_bytes = 0;         // of slices, vectors and sums of portions
  std::uint64_t round = 0;
  std::vector<std::uint64_t> versions;  // of the slices
  std::vector<ClientStatus> clients;
  StalenessHistogram staleness;
  Ledger ledger;
  // Of clients, without what they fetched of cuts, since the process began.
  std::uint64_t fetched_bytes = 0, pushed_bytes = 0;
  std::vector<std::uint64_t> cuts;      // that it keeps
  std::optional<VectorReport> vectors;  // where it has a space
};
transport::Message encode(const ShardReport& report);
ShardReport decode_report(const transport::Message& content);

}  // namespace convoy::server::calls
