// What must hold in every schedule of the simulation, whatever fails.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/replication/types.h"
#include "tests/server/replication/ledger.h"

namespace convoy::server::replication::sim {

// Thrown by a check that failed.
struct Violation {
  std::string check;
  std::string what;
};

class Checks {
 public:
  // A node, a member of the newest configuration or not, has applied a command: all nodes apply the
  // same at an index.
  void applied(const Member& by, bool member, const Entry& entry);
  // A primary has committed something in its epoch: nobody else does.
  void committed(const Member& primary, Epoch epoch);
  void acknowledged(const Update& update) { acknowledged_.insert(update); }
  // All members have lost in power cuts what they hadn't synced, which Durability::replicated
  // allows.
  void lost_after(Index index);
  // The epochs of which there was a command after the last, and one of them isn't lost after all.
  std::vector<Epoch> lost_next() const;
  void found_next(Epoch epoch);

  // Of what the shard holds in the end.
  void complete(const Ledger& ledger) const;

  Index last() const { return history_.size(); }
  Epoch epoch_of(Index index) const { return history_[index - 1].epoch; }
  std::size_t acknowledged() const { return acknowledged_.size(); }
  std::size_t excused() const { return excused_.size(); }

 private:
  std::vector<Entry> history_;  // commands 1, 2, ...
  // What was dropped from it. A joiner may have got it just before, and apply it after; and it is
  // back when that joiner turns out to be a member.
  std::map<std::pair<Index, Epoch>, Entry> lost_;
  std::set<Update> acknowledged_, excused_;
  std::map<Epoch, Member> primaries_;
};

std::string text_of(const Member& member);

}  // namespace convoy::server::replication::sim
