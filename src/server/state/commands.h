// The commands that change a shard, and what it replies: their bytes (docs/server-format.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/state/definition.h"
#include "server/wire/reader.h"
#include "server/wire/values.h"
#include "server/wire/writer.h"

namespace convoy::server {

inline constexpr std::uint16_t kCommandVersion = 1;  // in front of every command and reply
inline constexpr std::size_t kMaxClients = 65536;    // that a shard knows at a time
inline constexpr std::size_t kMaxCuts = 4;           // that it keeps at a time
inline constexpr std::size_t kMaxClientName = 255;   // bytes
inline constexpr std::size_t kMaxMessage = 2048;     // bytes

// The number of a command; its place in the table of shard_state.cc.
enum class CommandNumber : std::uint8_t {
  define = 1,
  initialize = 2,
  push = 3,
  set_rates = 4,
  join = 5,
  leave = 6,
  forget = 7,
  cut = 8,
  drop_cut = 9,
  // Of a batch optimizer's vectors (batch_commands.h).
  space = 10,
  put = 11,
  combine = 12,
  multiply = 13,
  keep = 14,
  evaluate = 15,
  gradient = 16,
};

enum class Status : std::uint8_t {
  done = 0,
  collected = 1,        // a push that is kept, and applied when its round is complete
  fetch_again = 2,      // staler than the bound, or of a round that already has this client's push
  not_finite = 3,       // a value is infinite or no number
  wrong_shape = 4,      // a slice that isn't here, or another number of values
  not_member = 5,       // join first
  not_initialized = 6,  // the shard has no definition, or a slice no values yet
  superseded = 7,       // a push before the client's last one; whatever became of it was decided
  malformed = 8,        // no command at all
  conflict = 9,         // something else was said before
  full = 10,            // more clients, cuts or bytes than fit
  no_vector = 11,       // nothing has this name, or a part of it is missing
};
std::string_view name(Status status);

struct Reply {
  Status status = Status::done;
  std::uint64_t index = 0;     // of the command that this is the reply to
  std::uint64_t round = 0;     // rounds that the shard had completed then
  std::uint64_t sequence = 0;  // join, leave: the client's last push; push: its own
  std::uint64_t staleness =
      0;                // push: versions passed between fetch and push, of its stalest slice
  std::string message;  // why it was refused, naming client and slice; else empty
  Bytes content;        // leave: u64 progress of the client's last push that was accepted
  bool operator==(const Reply&) const = default;
};
Bytes encode(const Reply& reply);
Bytes progress_content(std::uint64_t progress);
std::uint64_t read_progress(const Reply& reply);       // throws UsageError when it has none
Reply decode_reply(std::span<const std::byte> bytes);  // throws UsageError

// Values of one slice with its rule's state, to begin from or to go on from.
struct InitialSlice {
  std::uint32_t slice = 0;    // its place in the definition
  std::uint64_t version = 0;  // updates that have led to them
  EncodedValues values;
  std::vector<EncodedValues> slots;  // none: the rule's initial ones; else one for each slot
};

// What a client adds to one slice.
struct PushedSlice {
  std::uint32_t slice = 0;    // ascending within a push
  std::uint64_t version = 0;  // that the client had fetched
  EncodedValues values;       // the gradient (mean over the samples), or what a statistic moved by
};

struct Push {
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;  // ascends from 1 or more; gaps are allowed
  std::uint64_t samples = 0;   // that the gradients are of; 0 only without slices
  // How far the client's work is with this push, in whatever way it counts: kept for those who go
  // on with it when it is gone.
  std::uint64_t progress = 0;
  // Numbers that the shard counts and sums where it applies the push: a ledger that proves from the
  // final state alone which pushes are in it. Usually none.
  std::vector<std::uint64_t> ids;
  std::vector<PushedSlice> slices;
};
// Reads the fields after the command's number; values are views into the reader's bytes.
Push read_push(Reader& reader);

// The bytes of commands.
Bytes define_command(const Definition& definition);
Bytes initialize_command(const std::vector<InitialSlice>& slices);
Bytes push_command(const Push& push);
// The same bytes without those of the values, so that these can be sent from where they are: what
// stands in front of each array (of a slice the values, then its slots), and behind the last one.
std::vector<Bytes> initialize_pieces(const std::vector<InitialSlice>& slices);
std::vector<Bytes> push_pieces(const Push& push);
// New learning rates of slices; ignored unless `ordinal` is larger than those before.
Bytes set_rates_command(std::uint64_t ordinal,
                        const std::vector<std::pair<std::uint32_t, double>>& rates);
Bytes join_command(std::uint64_t client, std::string_view name);
Bytes leave_command(std::uint64_t client);
Bytes forget_command(std::uint64_t client);
Bytes cut_command(std::uint64_t id);
Bytes drop_cut_command(std::uint64_t id);

}  // namespace convoy::server
