// What a node does as backup, as joiner, and before it is either.
#include <algorithm>
#include <utility>

#include "server/replication/node.h"

namespace convoy::server::replication {

void Node::tick_follower() {
  const bool lost = !following_ || following_->primary != configuration_.primary ||
                    now_ > following_->heard + (following_->phase == Following::Phase::asking
                                                    ? options_.retry_interval
                                                    : options_.peer_timeout);
  if (!lost) return;
  if (may_ask()) {
    ask();
  } else {
    drop_incoming();
  }
}

bool Node::may_ask() const {
  const Member& primary = configuration_.primary;
  const Member& backup = configuration_.backup;
  if (!able_ || !primary || primary.node == self_.node) return false;
  if (following_ && following_->phase == Following::Phase::installing) return false;
  // The primary ends the role of an earlier life when it hears of this one.
  return !backup || backup.node == self_.node;
}

void Node::ask() {
  drop_incoming();
  following_.emplace();
  following_->primary = configuration_.primary;
  following_->session = ++session_;
  following_->heard = now_;
  send(configuration_.primary, JoinRequest{kReplicationVersion, session_, configuration_.epoch,
                                           applied_, log_.last(), log_.runs()});
}

// Ends a transfer that isn't complete; one that is being installed can't be stopped any more.
void Node::drop_incoming() {
  if (!following_ || following_->phase != Following::Phase::snapshot) return;
  if (following_->received > 0) add(DiscardSnapshot{following_->session});
  following_.reset();
}

// Whether a message of a primary counts.
bool Node::follows(const Member& from, const Configuration& configuration, std::uint64_t session) {
  if (!rules_.accepts(configuration_.epoch, configuration.epoch)) {
    send(from, Refusal{Refusal::Kind::old_epoch, configuration_.epoch, session});
    return false;
  }
  if (configuration.primary != from) return false;
  adopt(configuration, "its primary says so");
  if (!following_ || following_->primary != from || following_->session != session) return false;
  following_->epoch = configuration.epoch;
  return true;
}

void Node::on(const Member& from, const JoinAnswer& answer) {
  if (!follows(from, answer.configuration, answer.session)) return;
  if (following_->phase == Following::Phase::snapshot &&
      answer.kind == JoinAnswer::Kind::snapshot) {  // it is still being made
    following_->heard = now_;
    send(from, PieceAck{following_->epoch, answer.session, following_->received, false});
    return;
  }
  if (following_->phase != Following::Phase::asking) return;
  switch (answer.kind) {
    case JoinAnswer::Kind::refused:
      add(RoleChanged{role_, configuration_, "not joined: " + answer.reason});
      return;
    case JoinAnswer::Kind::tail:
      if (answer.keep < applied_ || answer.keep > log_.last()) return;
      following_->phase = Following::Phase::tail;
      committed_ = std::min(committed_, answer.keep);
      if (answer.keep < log_.last()) truncate(answer.keep);
      break;
    case JoinAnswer::Kind::snapshot:
      following_->phase = Following::Phase::snapshot;
      break;
  }
  following_->heard = now_;
  if (!configuration_.has(self_)) become(Role::joiner, "its primary sends what it lacks");
  if (following_->phase == Following::Phase::tail) acknowledge(false);
}

void Node::on(const Member& from, const SnapshotPiece& piece) {
  if (!follows(from, piece.configuration, piece.session)) return;
  Following& following = *following_;
  using Phase = Following::Phase;
  following.heard = now_;
  if (following.phase == Phase::asking) return;
  if (following.phase == Phase::tail) {  // an acknowledgment was lost
    send(from, PieceAck{following.epoch, piece.session, following.received, true});
    return;
  }
  if (following.phase == Phase::snapshot) {
    if (following.received == 0) {
      following.at = piece.at;
      following.total = piece.total;
    }
    const bool fits = piece.at == following.at && piece.total == following.total &&
                      piece.offset == following.received &&
                      piece.bytes.size() <= following.total - following.received;
    if (fits && !piece.bytes.empty()) {
      following.received += piece.bytes.size();
      add(StorePiece{following.session, piece.bytes});
      if (following.received == following.total) {
        following.phase = Phase::installing;
        // The snapshot takes the place of all that is in the log, or on the way to it.
        unwritten_.clear();
        unsynced_.clear();
        syncing_ = 0;
        add(InstallSnapshot{following.session, ++ticket_, following.at});
      }
    }
  }
  send(from, PieceAck{following.epoch, piece.session, following.received, false});
}

Effects Node::snapshot_installed(Time now, std::uint64_t transfer, bool installed) {
  at(now);
  if (!following_ || following_->phase != Following::Phase::installing ||
      following_->session != transfer) {
    return done();
  }
  if (!installed) {
    following_.reset();  // and asked again, unless there is no room
    return done();
  }
  log_ = LogShape(following_->at);
  written_ = synced_ = committed_ = applied_ = saved_ = following_->at.index;
  following_->phase = Following::Phase::tail;
  following_->heard = now_;
  send(following_->primary,
       PieceAck{following_->epoch, following_->session, following_->received, true});
  return done();
}

void Node::on(const Member& from, const Append& append) {
  if (!follows(from, append.configuration, append.session)) return;
  Following& following = *following_;
  following.heard = now_;
  if (following.phase != Following::Phase::tail || !able_) return;
  const Index end = append.before.index + append.entries.size();
  // What the log begins behind was committed, and so is the same on both.
  bool fits = append.before.index < log_.base().index ||
              log_.epoch_of(append.before.index) == append.before.epoch;
  std::vector<Entry> entries;
  for (const Entry& entry : append.entries) {
    if (entry.index <= log_.base().index) continue;
    if (entry.index > log_.last()) {
      fits = fits && entry.index == log_.last() + 1 + entries.size();
      entries.push_back(entry);
    } else {
      fits = fits && log_.epoch_of(entry.index) == entry.epoch;
    }
  }
  if (!fits) {
    acknowledge(true);
    return;
  }
  const bool news = !entries.empty();
  if (news) write(std::move(entries));
  committed_ = std::max(committed_, std::min(append.committed, std::min(end, log_.last())));
  apply();
  if (!news) acknowledge(false);
}

void Node::acknowledge(bool gap) {
  send(following_->primary,
       AppendAck{following_->epoch, following_->session, written_, synced_, log_.last(), gap});
}

}  // namespace convoy::server::replication
