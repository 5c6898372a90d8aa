// What a shard's state consists of.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/state/batch_vectors.h"
#include "server/state/commands.h"
#include "server/state/definition.h"
#include "server/state/striped_vector.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server {

// A slice that has values.
struct ShardSlice {
  ShardSlice(std::uint64_t version, FrozenBlocks blocks)
      : version(version), vector(std::move(blocks)) {}
  // Updates that it has had, which is also the step that its rule has reached. Stored when an
  // update is complete: whoever reads it and then the values gets all of those updates, perhaps
  // some later ones in some stripes.
  std::atomic<std::uint64_t> version;
  StripedVector vector;
};

// A slice at one index.
struct FrozenSlice {
  std::uint64_t version = 0;
  FrozenBlocks blocks;
};

// How far a client was at one index.
struct LastPush {
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;  // of its last push, whatever became of it; 0 before the first
  std::uint64_t progress = 0;  // that its last push said which is in the values; 0 before the first
  bool operator==(const LastPush&) const = default;
};
using LastPushes = std::vector<LastPush>;  // by client

void write(Writer& writer, const LastPushes& pushes);
LastPushes read_last_pushes(Reader& reader);

// All slices at one index, kept until it is dropped.
struct ShardCut {
  std::uint64_t index = 0;
  std::uint64_t round = 0;
  LastPushes clients;
  std::vector<std::optional<FrozenSlice>> slices;  // nothing: it had no values yet
};

struct ClientRecord {
  std::string name;  // for messages
  bool member = false;
  std::uint64_t sequence = 0;  // of its last push, whatever became of it; 0 before the first
  Reply reply;                 // to that one
  // That its last push said which was accepted, and its last one which is in the values: not the
  // same while a push waits for its round.
  std::uint64_t progress = 0;
  std::uint64_t applied_progress = 0;
  std::uint64_t pushes = 0;   // that were accepted
  std::uint64_t samples = 0;  // of those
  std::uint64_t refused_not_finite = 0;
  std::uint64_t refused_shape = 0;
  std::uint64_t refused_stale = 0;
  // Slices without a rule that it has pushed, one after the other, since it joined.
  std::set<std::uint32_t> statistics = {};
  bool operator==(const ClientRecord&) const = default;
};
void write(Writer& writer, const ClientRecord& client);
ClientRecord read_client_record(Reader& reader);
inline constexpr std::size_t kLeastRecord = 4 + 1 + 8 + 8 + 7 * 8 + 4;  // bytes that one takes

// Sums, modulo 2^64, over the ids of all pushes that are in the values. The squares tell one id
// that was lost and another that was applied twice from none of both.
struct Ledger {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  void add(std::uint64_t id) {
    ++count;
    sum += id;
    squares += id * id;
  }
  bool operator==(const Ledger&) const = default;
};
void write(Writer& writer, const Ledger& ledger);
Ledger read_ledger(Reader& reader);

// Pushes by staleness: entry s < 16 those of s versions, the others those of 2^k to 2^(k+1) - 1
// with k = entry - 12; the last one those of all more.
struct StalenessHistogram {
  static constexpr std::size_t kEntries = 36;
  std::array<std::uint64_t, kEntries> pushes{};
  static std::size_t entry(std::uint64_t staleness);
  void add(std::uint64_t staleness) { ++pushes[entry(staleness)]; }
  bool operator==(const StalenessHistogram&) const = default;
};
void write(Writer& writer, const StalenessHistogram& staleness);
StalenessHistogram read_staleness(Reader& reader);

struct ShardData {
  std::uint64_t applied = 0;  // index of the last command
  std::uint64_t round = 0;    // rounds completed; only with a staleness bound of 0
  std::optional<Definition> definition;
  std::uint64_t rate_ordinal = 0;
  std::vector<double> rates;                        // of each slice now; 0 for statistics
  std::vector<std::shared_ptr<ShardSlice>> slices;  // as in the definition; null before values
  std::map<std::uint64_t, ClientRecord> clients;    // by id
  std::map<std::uint64_t, std::shared_ptr<const Bytes>> collected;  // push commands of this round
  std::map<std::uint64_t, std::shared_ptr<const ShardCut>> cuts;    // by id
  StalenessHistogram staleness;
  Ledger ledger;
  BatchData batch;

  LastPushes last_pushes() const;
  std::vector<std::optional<FrozenSlice>> freeze() const;
};

}  // namespace convoy::server
