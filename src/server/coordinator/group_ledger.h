// Who computes which portions of a batch, and what of it is done.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/exact_sum.h"
#include "convoy/server/batch.h"
#include "server/replication/types.h"
#include "server/wire/writer.h"

namespace convoy::server::coordinator {

using replication::Time;  // microseconds

// Of a group, whose portions are a node of one binary tree over all of them.
constexpr std::uint32_t portions_of(const PortionGroup& group) {
  return std::uint32_t{1} << group.log2_size;
}
constexpr std::uint32_t end_of(const PortionGroup& group) {
  return static_cast<std::uint32_t>(group.end());
}

struct GroupOptions {
  std::uint32_t portions = 1;  // of a batch
  std::uint8_t largest = 4;    // level of the largest groups
  bool backups = true;
  std::uint32_t copies = 3;  // of one group that are under way at once, at most
  // Nothing is known of how long a portion takes: a group that is under way for so long gets a
  // copy.
  Time blind = replication::milliseconds(10'000);
};

// Throws UsageError naming the option, its value and what would be right.
void validate(const GroupOptions& options);

// Of the evaluation at hand.
struct GroupCounts {
  std::uint64_t groups = 0;  // that portions were cut into
  std::uint64_t done = 0;    // portions
  std::uint64_t again =
      0;  // portions handed out again, since who had them was lost or shards lost them
  std::uint64_t copies = 0;  // portions handed out while another one had them: backups
  std::uint64_t unused = 0;  // portions that came when they were done already
};

// The leases of Sandblaster (Dean et al. 2012, section 4.2). A batch is divided into portions, and
// these are leased in groups to whoever is free. A replica that is faster than others gets more
// groups, and larger ones; towards the end of a batch groups have one portion. Where nothing is
// left to hand out, who is free gets a copy of what another one is late with, and the first of them
// counts. Once it is cut a group stays whole: copies and what is handed out again have the same
// portions, so that shards can tell them from others.
//
// Replicas are given portions that follow those they had, and those they had in the evaluation
// before, which they may have in memory.
//
// Without a clock, I/O and chance: the same calls lead to the same ledger. How long replicas take
// decides who gets what, and nothing else: each portion of an evaluation is done once, and the loss
// is the exact sum of the portions' losses, rounded once, in whatever order they came.
//
// One thread at a time.
class GroupLedger {
 public:
  static constexpr Time kNever = UINT64_MAX;
  static constexpr std::uint32_t kMostPortions = std::uint32_t{1} << 24;
  // Groups don't cross a multiple of so many portions, and what is stored is stored by these.
  static constexpr std::uint8_t kBlockLevel = 8;
  static constexpr std::uint32_t kBlock = std::uint32_t{1} << kBlockLevel;

  explicit GroupLedger(const GroupOptions& options);

  // All portions are to be done, at other weights.
  void begin(const EvaluationId& evaluation);
  // Nothing more is handed out: it is sealed, or nobody needs it.
  void end() { open_ = false; }
  bool open() const { return open_; }
  const EvaluationId& evaluation() const { return evaluation_; }

  // A replica takes part. Until then, and after leave(), nothing is its. What it had is handed out
  // again, unless somebody else has it, too.
  void enter(std::uint64_t replica) { replicas_.try_emplace(replica); }
  void leave(std::uint64_t replica);
  bool has(std::uint64_t replica) const { return replicas_.contains(replica); }

  struct Handed {
    enum class Kind : std::uint8_t {
      group,
      wait,  // nothing now; perhaps when anything has changed, or at `until`
      ended  // nothing of this evaluation any more
    };
    Kind kind = Kind::wait;
    PortionGroup group;
    bool copy = false;     // another one is at it
    bool changed = false;  // it was not its before
    Time until = kNever;
    std::vector<PortionGroup> unused;  // of those it said that it has: they are done
  };
  // The next group for a replica that has these and is at the first of them; it may have one more
  // than it works on, to read its samples ahead. A group that is its and that it doesn't name comes
  // again: the answer got lost. REQUIRES: has(replica).
  Handed lease(Time now, std::uint64_t replica, std::span<const PortionGroup> held);

  enum class Taken : std::uint8_t {
    counted,
    told,      // it may have said so before: an answer got lost
    repeated,  // another one had done it before
    late       // of an evaluation that is over
  };
  // All shards have the gradient of this group; `losses` are those of its portions, each the sum
  // over its samples. Throws UsageError for a group that was never cut, and for another number of
  // losses.
  Taken finished(Time now, std::uint64_t replica, const EvaluationId& evaluation,
                 const PortionGroup& group, std::span<const double> losses);
  // Some shard doesn't have portions begin to end - 1, though it should: its groups are to be done
  // again. Their losses are known and count as they were.
  void missing(std::uint32_t begin, std::uint32_t end);

  bool complete() const { return counts_.done == options_.portions; }
  // Some portion's loss isn't finite: nothing more is handed out.
  bool hopeless() const { return hopeless_; }
  // The sum of all portions' losses; of those that are done, if it isn't complete.
  double loss() const;
  // The first portion that was told whose loss isn't finite; not stored.
  std::optional<std::uint32_t> not_finite() const { return not_finite_; }
  const GroupCounts& counts() const { return counts_; }
  std::vector<PortionGroup> held(std::uint64_t replica) const;
  // So many replicas are at a group now.
  std::size_t holders(const PortionGroup& group) const;

  // Its bytes, for whoever goes on after this process: what holds for all, and each block. Which
  // groups there are must be stored before they are given to anybody. Replicas are not in them:
  // they say themselves what they have.
  Bytes encode() const;
  Bytes encode(std::uint32_t block) const;
  // Blocks that have changed since this was asked before.
  std::set<std::uint32_t> take_changed();
  // First the former, then blocks, in any order; those of another evaluation have no effect. Throw
  // UsageError for what encode() can't have made.
  void decode(std::span<const std::byte> bytes);
  void decode(std::uint32_t block, std::span<const std::byte> bytes);

 private:
  struct Group {
    std::uint8_t log2_size = 0;
    bool done = false;
    bool counted = false;  // its losses are in the sum
    std::set<std::uint64_t> holders;
  };
  struct Replica {
    double portion_time = 0;            // microseconds that one takes; 0: not known
    std::vector<PortionGroup> held;     // in the order in which it works on them
    Time began = 0;                     // the first of these
    std::optional<std::uint32_t> next;  // behind the last portion that it was given
    std::size_t home = 0;               // ranges of its home before this one are handed out
  };
  using Range = std::pair<std::uint32_t, std::uint32_t>;  // [begin, end)

  // --- group_ledger.cc ---
  Group* find(const PortionGroup& group);
  bool whole(std::uint64_t replica) const;
  void give(Time now, std::uint64_t id, Replica& replica, const PortionGroup& group);
  void let_go(Time now, Replica& replica, const PortionGroup& group);
  void reopen(std::uint32_t begin, Group& group);
  void change(std::uint32_t begin) { changed_.insert(begin / kBlock); }

  // --- group_choice.cc ---
  double typical() const;
  std::optional<double> pace(const Replica& replica) const;
  double busy_until(Time now, const Replica& replica, const PortionGroup* last, bool late) const;
  double fair_share(const Replica& replica) const;
  bool others_are_sooner(Time now, const Replica& replica, std::uint32_t size, Time& until) const;
  std::optional<PortionGroup> cut(std::uint64_t id, Replica& replica);
  std::optional<std::uint32_t> place(std::uint64_t id, Replica& replica, std::uint8_t level);
  bool is_free(std::uint32_t portion) const;
  std::optional<PortionGroup> copy(Time now, std::uint64_t id, const Replica& replica,
                                   Time& until) const;

  const GroupOptions options_;
  bool open_ = false;
  EvaluationId evaluation_;
  std::map<std::uint32_t, Group> groups_;        // that were cut, by their first portion
  std::map<std::uint32_t, std::uint32_t> free_;  // ranges that were not: begin, end
  std::uint32_t free_count_ = 0;
  std::set<std::uint32_t> open_groups_;  // that aren't done, by their first portion
  std::set<std::uint32_t> orphans_;      // of these, those that nobody has
  std::uint32_t orphan_count_ = 0;       // portions
  std::map<std::uint64_t, Replica> replicas_;
  std::vector<std::uint64_t> owner_;  // of each portion: who did it last
  std::map<std::uint64_t, std::vector<Range>>
      homes_;                               // the same, as it was in the evaluation before
  std::map<std::uint32_t, ExactSum> sums_;  // of losses, by block
  bool hopeless_ = false;
  std::optional<std::uint32_t> not_finite_;
  GroupCounts counts_;
  std::set<std::uint32_t> changed_;
};

}  // namespace convoy::server::coordinator
