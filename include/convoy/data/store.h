// The records of a data set in memory, in parts on several ranks, that can be shuffled among them:
// DIMD of Kumar et al. 2017, section 4.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/loadable_dataset.h"
#include "convoy/data/packed.h"
#include "convoy/data/peers.h"

namespace convoy::data {

class Region;
class SharedCopy;
struct HostRanks;

// Says where the records are.
enum class Placement : std::uint8_t {
  parts,  // every rank of a group has a part, in its own memory
  host,   // the ranks of a host have one copy of all records together, in memory that they share
  files,  // left where they are: read when they are asked for, through the page cache
  best,   // the first that fits: host; parts, in as many groups as possible; files
};

// This is what a rank needs of memory.
struct StoreNeed {
  Placement placement = Placement::parts;
  int groups = 1;            // as many as ranks unless there are parts
  int members = 1;           // ranks of a group
  std::uint64_t part = 0;    // bytes of records: the largest part that shuffles will give a rank,
                             // or this rank's share of its host's copy
  std::uint64_t tables = 0;  // where which record is, and the order of an epoch
  std::uint64_t segments = 0;
  std::uint64_t total() const { return part + tables + segments; }
};
// For parts. These are random, so the largest is an estimate: exceeded once in about 10,000
// shuffles of a rank. Throws UsageError unless groups >= 1 divides world.
StoreNeed store_need(const LoadableDataset& source, int world, int groups, std::size_t segment);

struct StoreOptions {
  Placement placement = Placement::parts;
  // For parts: every group of world / groups ranks that follow each other holds the whole data set.
  // 0: as many groups as the memory allows.
  int groups = 1;
  // This is what a shuffle moves at once, per rank: it needs two segments beside the records.
  std::size_t segment = std::size_t{32} << 20;
  // Bytes that the ranks of this host may use together, evenly, for what StoreNeed counts; never
  // more than is available there now. 0: three quarters of that, for training needs memory, too.
  std::uint64_t host_memory = 0;
  int threads = 1;  // that load
  // Says whether what all ranks together hold is compared with the data set after each shuffle,
  // which reads every record.
#ifdef NDEBUG
  bool check = false;
#else
  bool check = true;
#endif
  // Is told what is needed before anything is loaded; may be empty.
  std::function<void(const StoreNeed&)> planned = {};
  Tell tell = {};  // bytes of this rank's part, while it is loaded, from one thread at a time
};

struct ShuffleReport {
  double seconds = 0;
  std::uint64_t bytes = 0;  // of records, sent to other ranks by this one
  // Most bytes of memory at a time, by the store's own count: pages of records, and segments.
  std::uint64_t peak = 0;
  std::uint64_t rounds = 0;
  // Passes over memory that closed gaps, to keep the promise of memory.
  std::uint64_t compactions = 0;
};

// This is a Dataset whose numbers, labels and keys are the source's. With parts, each rank holds
// the records of one; arrange() decides which those are. Collective: the constructor (over `world`)
// and arrange() (over the group). The rest may be called from any thread at any time but during
// arrange().
//
// With one copy for a host, each of its ranks holds everything, and with files nobody holds
// anything; either way everybody is a group of one, and arrange() has nothing to move.
//
// Memory: records lie one after the other, without gaps, in the order in which they arrived. While
// arrange() runs there are at most max(part before, part after) + 2 segments, for segments of at
// least 8 pages for each rank of the group (smaller ones are taken as that).
class Store final : public Dataset {
 public:
  // Loads this rank's part, or its share of what its host has: consecutive records, about as many
  // bytes on each rank, read in ascending order and compared with their checksums. Throws the same
  // error on every rank of `world`: UsageError when groups doesn't divide the world, the memory is
  // too small (with the numbers), a host can't share as much or a record is damaged; Failure when a
  // record can't be read (with its name).
  Store(std::shared_ptr<const LoadableDataset> source, Peers& world, StoreOptions options = {});
  ~Store() override;

  std::size_t size() const override { return source_->size(); }
  const std::vector<std::string>& classes() const override { return source_->classes(); }
  // Reads it from memory if this rank holds it, without a copy, and otherwise from the source.
  Record read(std::size_t i, std::vector<std::byte>& scratch) const override;
  std::string key(std::size_t i) const override { return source_->key(i); }
  std::int64_t label(std::size_t i) const override { return source_->label(i); }
  bool pictures() const override { return source_->pictures(); }
  bool label_lists() const override { return source_->label_lists(); }
  std::vector<std::int64_t> labels(std::size_t i) const override { return source_->labels(i); }
  std::uint64_t fingerprint() const override { return source_->fingerprint(); }

  // These say how many ranks the group has, and which of them this is.
  int members() const;
  int member() const;
  int groups() const { return need_.groups; }

  const StoreNeed& need() const { return need_; }  // says where the records are
  bool holds(std::size_t i) const { return slot_of_[i] != kNone; }
  std::size_t held() const { return held_.size(); }
  std::uint64_t held_bytes() const { return offsets_.back(); }

  // Moves records until member m holds those at the positions m, m + members, m + 2 * members, ...
  // of `order`, a permutation of all numbers that is the same on every rank. Segment by segment;
  // records that stay where they are don't travel. Nothing is moved when all are in place. Throws
  // Failure when a rank is lost; the store is then useless.
  ShuffleReport arrange(std::span<const std::size_t> order);

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  void load_part();
  void load_copy(const HostRanks& here);
  std::size_t bytes_at(std::size_t slot) const { return offsets_[slot + 1] - offsets_[slot]; }
  void take_over(std::vector<std::uint32_t> held);
  std::uint64_t checksum() const;
  void check_whole() const;

  std::shared_ptr<const LoadableDataset> source_;
  StoreOptions options_;
  std::unique_ptr<Peers> group_;
  StoreNeed need_;
  std::unique_ptr<Region> region_;      // a part
  std::unique_ptr<SharedCopy> copy_;    // or everything
  std::vector<std::uint32_t> held_;     // numbers, by slot: the order in memory
  std::vector<std::uint64_t> offsets_;  // by slot, and the end
  std::vector<std::uint32_t> slot_of_;  // by number
  std::uint64_t sum_ = 0;               // of all records of the group, if they are checked
};

}  // namespace convoy::data
