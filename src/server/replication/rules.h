// The decisions on which the safety of replication rests, each a function of what it depends on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "server/replication/log_shape.h"
#include "server/replication/types.h"

namespace convoy::server::replication {

// What the authority knows of a node of the shard.
struct Standing {
  Member now;          // whom it is now; another life than a configuration names: it was restarted
  bool heard = false;  // within a lease; otherwise it is dead, paused or cut off
  bool fresh = false;  // within a fraction of a lease
  bool able = false;   // it can write its log
  Position position;   // the last command that it had when this life began
  bool whole = false;  // nothing was missing then that it had ever acknowledged
};

// A node and the authority ask these and nobody else; they are virtual so that tests can see what
// becomes of a protocol that gets one of them wrong. Thread-safe, since without state.
class Rules {
 public:
  virtual ~Rules() = default;

  // What a node may acknowledge of a log that is written and synced so far.
  virtual Index acknowledged(Durability durability, Index written, Index synced) const;

  // The command up to which all are committed, given what the primary and the other node have
  // acknowledged. `backup`: the other one is the backup. `joint`: it is a joiner that the authority
  // may have made the backup already.
  virtual Index committed(Index own, Index other, bool backup, bool joint) const;

  // What the primary tells the backup to apply. `last` is the last command sent.
  virtual Index announced(Index committed, Index last) const;

  // Whether a message of epoch `sent` counts for a node that knows of epoch `known`.
  virtual bool accepts(Epoch known, Epoch sent) const;

  // How much of its log a joiner keeps: the last command that both logs share, if that is not
  // before what the joiner has applied. Nothing: it needs a snapshot.
  virtual std::optional<Index> kept(const LogShape& primary, std::span<const EpochRun> joiner,
                                    Index last, Index applied) const;

  // Whether a node whose log couldn't be written leaves its role.
  virtual bool leaves_when_unable() const;

  // The configuration after `current` when its primary no longer serves; nothing when the primary
  // does, or when only waiting is safe. `nodes`: all that the authority has ever heard of. With
  // `accept_loss`, an operator's word, a member that may have lost the last moments before a power
  // cut is taken even though nobody stands in for it.
  virtual std::optional<Configuration> successor(const Configuration& current,
                                                 std::span<const Standing> nodes,
                                                 bool accept_loss) const;

 protected:
  // Of two members that were restarted, whom to start with.
  virtual bool better(const Standing& left, const Standing& right) const;
};

}  // namespace convoy::server::replication
