// Who had which groups of portions when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "convoy/server/batch.h"
#include "server/replication/types.h"

namespace convoy::server::coordinator {

using replication::Time;  // microseconds

// For people: nothing depends on it, and who goes on after this process has none of it. Without a
// clock, as the ledger. Of a replica that has two groups the second one begins when it is done with
// the first.
//
// One thread at a time.
class GroupJournal {
 public:
  static constexpr std::size_t kMost = 20'000;  // records, of which the oldest are forgotten
  static constexpr std::size_t kMostGone = 64;  // replicas that are gone, likewise

  // A replica has this group from now on; without effect if it has it already. `again`: somebody
  // had it before and lost it.
  void given(Time now, std::uint64_t replica, const EvaluationId& evaluation,
             const PortionGroup& group, bool copy, bool again);
  // It is done with it.
  void done(Time now, std::uint64_t replica, const EvaluationId& evaluation,
            const PortionGroup& group, bool counted);
  // It was told that others were.
  void not_needed(Time now, std::uint64_t replica, const PortionGroup& group);
  // It takes part no more, and has nothing; its number comes never again.
  void left(Time now, std::uint64_t replica);
  // Nobody needs what anybody has.
  void over(Time now);
  void name(std::uint64_t replica, const std::string& name) { replicas_[replica].name = name; }

  const PortionCounts& all() const { return all_; }
  // What those that are here have had, and for how long until now, and those that left last.
  std::vector<BatchReplica> replicas(Time now) const;
  // All that have left.
  struct Gone {
    std::uint64_t replicas = 0;
    PortionCounts portions;
    double busy_s = 0;
  };
  Gone gone() const;
  // Records with larger numbers, at most so many, the oldest first. What a replica has still is in
  // none.
  std::vector<GroupRecord> after(std::uint64_t number, std::size_t most) const;

 private:
  struct Had {
    GroupRecord record;
    Time began = 0;
  };
  struct Replica {
    std::string name;
    std::deque<Had> has;  // in the order in which it works on them
    PortionCounts portions;
    Time busy = 0;
    bool here = true;
  };
  void drop(Time now, Replica& replica);
  void end(Time now, Replica& replica, std::deque<Had>::iterator had, GroupRecord::End how);

  std::map<std::uint64_t, Replica> replicas_;
  std::deque<std::uint64_t> newest_gone_;  // of these
  std::uint64_t gone_ = 0;
  PortionCounts gone_portions_;
  Time gone_busy_ = 0;
  std::deque<GroupRecord> records_;
  std::uint64_t last_ = 0;
  PortionCounts all_;
};

}  // namespace convoy::server::coordinator
