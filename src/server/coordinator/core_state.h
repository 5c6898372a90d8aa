// Parts of a core that only its own units see.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/core.h"
#include "server/coordinator/group_desk.h"

namespace convoy::server::coordinator {

// A call that is made until it is answered.
struct Retried {
  bool asked = false;
  Time due = 0;
};

// A replica's clients are told to leave all shards; from the answers follows what of its portions
// is done.
struct Core::Leaving {
  std::map<std::pair<std::uint32_t, std::uint64_t>, Retried> open;  // shard and client
  bool stored = false;  // that they leave: only then shards are told
  bool asked = false;   // shards have been, or will be
  bool any = false;     // a shard knew one of them
  Progress least = UINT64_MAX, most = 0;
};

// The portions of a batch, and who waits for them.
struct Core::BatchWork {
  explicit BatchWork(const GroupOptions& options) : groups(options), desk(options) {}
  GroupOptions groups;
  GroupDesk desk;
  bool begun = false;  // an evaluation has
  std::optional<std::uint64_t> awaited;
  std::string over;            // why the method has no next iteration
  PortionCounts iteration;     // of the iteration that ended last
  PortionCounts at_iteration;  // the journal's, when it ended
  std::uint64_t method_bytes = 0;
  // Requests of replicas of which not all processes are here yet.
  struct Early {
    CallId call = 0;
    calls::PortionRequest request;
    Time since = 0;
  };
  std::vector<Early> early;
  // While the method frees what its iteration goes on from, and those who want to hold that.
  bool frees = false;
  struct Holder {
    CallId call = 0;
    calls::WatchRequest watch;
    Time since = 0;
  };
  std::vector<Holder> holders;
};

struct Core::DropRun {
  bool stored = false;                    // that it is dropped: only then shards are told
  std::map<std::uint32_t, Retried> open;  // shards
};

struct Core::CutRun {
  enum class Phase { pausing, reporting, cutting } phase = Phase::pausing;
  WaitingCut request;
  bool orphan = false;  // nobody waits for it any more
  Time began = 0;
  Time due = 0;       // pausing: when it goes on
  double growth = 1;  // of how far ahead of the clients the cut is asked for

  // Of this attempt.
  std::uint64_t attempt = 0;
  std::uint64_t id = 0;
  Time asked = 0;
  std::size_t missing = 0;          // answers
  std::string why;                  // it won't come about
  std::set<std::uint32_t> unknown;  // shards that may make it yet
  std::vector<calls::ShardReport> reports;
  std::vector<LastPushes> pushes;
  std::map<std::uint64_t, Seen> before;
  // The ledger as it was before any shard was asked, and what has happened since.
  LedgerView view;
  std::map<std::uint64_t, Progress> resolved;  // replicas that are gone since
};

}  // namespace convoy::server::coordinator
