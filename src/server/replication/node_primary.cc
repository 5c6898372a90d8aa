// What a node does as primary.
#include <algorithm>
#include <string>
#include <utility>

#include "server/replication/node.h"

namespace convoy::server::replication {

void Node::lead(const std::string& why) {
  if (role_ != Role::primary) {
    end_peer();
    become(Role::primary, why);
  } else {
    add(RoleChanged{role_, configuration_, why});
  }
  // In a new epoch indices may be given again, if there is room for commands.
  stalled_ = !able_ || (following_ && following_->phase == Following::Phase::installing);
  if (peer_ && peer_->member != configuration_.backup &&
      (configuration_.backup || peer_->required)) {
    end_peer();
  }
  if (configuration_.backup) {
    if (!peer_) {
      peer_.emplace();
      peer_->member = configuration_.backup;
      peer_->heard = now_;
    }
    peer_->required = true;
  }
  count_pending();
  advance();
  replicate();
}

void Node::step_down(const std::string& why) {
  reject_waiting(why);
  end_peer();
  wanted_.reset();
}

void Node::reject_waiting(const std::string& why) {
  for (const Waiting& waiting : waiting_) {
    add(Reject{waiting.token, true, configuration_.primary, why});
  }
  waiting_.clear();
}

void Node::count_pending() {
  pending_bytes_ = 0;
  for (Index i = std::max(committed_ + 1, log_.first()); i <= log_.last(); ++i) {
    pending_bytes_ += log_.bytes_of(i);
  }
}

Effects Node::propose(Time now, Token token, Command command) {
  at(now);
  std::string why;
  if (role_ != Role::primary) {
    why = "not the primary";
  } else if (stalled_) {
    why = "no room for the log";
  } else if (pending_bytes_ > options_.pending_bytes) {
    why = "busy";
  }
  if (!why.empty()) {
    add(Reject{token, false, configuration_.primary, why});
    return done();
  }
  const Index index = log_.last() + 1;
  pending_bytes_ += command->size();
  waiting_.push_back({index, token});
  write({{index, configuration_.epoch, std::move(command)}});
  replicate();
  return done();
}

// Asks the authority for the next configuration, with this backup or none.
void Node::want(const Member& backup) {
  const Configuration next{shard_, configuration_.epoch + 1, self_, backup};
  if (wanted_ == next) return;
  wanted_ = next;
  wanted_sent_ = now_;
  send({}, Change{stamp_, next});
}

void Node::tick_primary() {
  if (wanted_ && now_ >= wanted_sent_ + options_.retry_interval) {
    wanted_sent_ = now_;
    send({}, Change{stamp_, *wanted_});
  }
  // Its log has room again, but the authority was asked in vain so far.
  if (stalled_ && able_ && !wanted_) want({});
  if (!peer_) return;
  if (now_ > peer_->heard + options_.peer_timeout) {
    lose_peer();
    if (!peer_) return;
  }
  if (now_ > peer_->progress + options_.retry_interval) {
    peer_->progress = now_;
    if (peer_->feed == Peer::Feed::tail) peer_->next = std::min(peer_->next, peer_->written + 1);
    if (peer_->feed == Peer::Feed::snapshot) peer_->sent = peer_->received;
  }
  replicate();
  if (now_ < peer_->spoken + options_.heartbeat_interval) return;
  // Both sides take silence for death, whatever they wait for.
  switch (peer_->feed) {
    case Peer::Feed::nothing:
      break;
    case Peer::Feed::opening:
      send(peer_->member,
           JoinAnswer{configuration_, peer_->session, JoinAnswer::Kind::snapshot, 0, {}});
      break;
    case Peer::Feed::snapshot:
      send(peer_->member,
           SnapshotPiece{
               configuration_, peer_->session, peer_->at, peer_->total, peer_->received, {}});
      break;
    case Peer::Feed::tail:
      send_tail(true);
      break;
  }
  peer_->spoken = now_;
}

// Commits what everybody who has to has acknowledged.
void Node::advance() {
  if (role_ != Role::primary) return;
  const bool backup = static_cast<bool>(configuration_.backup);
  const bool joint = !backup && peer_ && peer_->required;
  const Index other = backup_acknowledged().value_or(0);
  const Index committed =
      std::min(rules_.committed(own_acknowledged(), other, backup, joint), log_.last());
  while (committed_ < committed) {
    ++committed_;
    if (committed_ >= log_.first()) {
      pending_bytes_ -= std::min(pending_bytes_, log_.bytes_of(committed_));
    }
  }
  apply();
}

std::optional<Index> Node::backup_acknowledged() const {
  if (!peer_) return std::nullopt;
  return rules_.acknowledged(options_.durability, peer_->written, peer_->synced);
}

// Sends what the window allows.
void Node::replicate() {
  if (!peer_) return;
  if (peer_->feed == Peer::Feed::tail) send_tail(false);
  if (peer_->feed == Peer::Feed::snapshot) send_pieces();
}

void Node::send_tail(bool even_if_empty) {
  Peer& peer = *peer_;
  std::uint64_t in_flight = 0;
  for (Index i = std::max(peer.written + 1, log_.first()); i < peer.next && i <= log_.last(); ++i) {
    in_flight += log_.bytes_of(i);
  }
  const auto append = [&](Index before) {
    return Append{configuration_,
                  peer.session,
                  {log_.epoch_of(before).value_or(0), before},
                  rules_.announced(committed_, log_.last()),
                  {}};
  };
  while (peer.next <= log_.last() && peer.next >= log_.first() &&
         in_flight < options_.window_bytes) {
    const Index first = peer.next;
    std::uint64_t bytes = 0;
    do {
      bytes += log_.bytes_of(peer.next++);
    } while (peer.next <= log_.last() &&
             bytes + log_.bytes_of(peer.next) <= options_.message_bytes);
    in_flight += bytes;
    add(SendEntries{{shard_, self_, peer.member, append(first - 1)}, first, peer.next - 1});
    peer.spoken = now_;
    even_if_empty = false;
  }
  if (even_if_empty) {
    send(peer.member, append(std::min(peer.next - 1, log_.last())));
    peer.spoken = now_;
  }
}

void Node::send_pieces() {
  Peer& peer = *peer_;
  while (peer.sent < peer.total && peer.sent - peer.received < options_.piece_window_bytes) {
    const std::uint64_t size = std::min(options_.piece_bytes, peer.total - peer.sent);
    SnapshotPiece piece{configuration_, peer.session, peer.at, peer.total, peer.sent, {}};
    add(SendPiece{{shard_, self_, peer.member, std::move(piece)}, peer.transfer, size});
    peer.sent += size;
    peer.spoken = now_;
  }
}

// Every transfer that was opened is closed here, however it ends.
void Node::end_transfer() {
  if (peer_->feed != Peer::Feed::opening && peer_->feed != Peer::Feed::snapshot) return;
  add(CloseSnapshot{peer_->transfer});
  peer_->feed = Peer::Feed::nothing;
}

void Node::end_peer() {
  if (!peer_) return;
  end_transfer();
  peer_.reset();
  cut();
}

// The other node may have commands that this one couldn't write, so that what it acknowledges says
// nothing any more; in the next session it will drop them.
void Node::end_session() {
  if (!peer_) return;
  end_transfer();
  peer_->feed = Peer::Feed::nothing;
  peer_->written = peer_->synced = 0;
  if (!peer_->required) end_peer();
}

// Without one that is required nothing is committed until the authority has made a configuration
// without it: it may be the next primary already.
void Node::lose_peer() {
  if (peer_->required) {
    want({});
  } else {
    end_peer();
  }
}

// A joiner that has nearly all is waited for from here on, since the authority may make it the
// backup at any moment after it was asked to.
void Node::admit_if_ready() {
  if (!peer_ || peer_->required || peer_->feed != Peer::Feed::tail || stalled_ || wanted_) return;
  const Index has = *backup_acknowledged();
  if (has < committed_ || has + options_.joint_lag < log_.last()) return;
  peer_->required = true;
  want(peer_->member);
}

Peer* Node::peer_in(const Member& from, std::uint64_t session) {
  if (role_ != Role::primary || !peer_ || peer_->member != from || peer_->session != session) {
    return nullptr;
  }
  return &*peer_;
}

// --- messages of backup and joiner ---

void Node::on(const Member& from, const JoinRequest& request) {
  if (request.epoch > configuration_.epoch) {  // asked for what this node doesn't know of yet
    report();
    return;
  }
  if (role_ != Role::primary) return;
  if (peer_ && peer_->member == from && request.session <= peer_->session)
    return;  // once is enough
  const std::string reason = reason_to_refuse(from, request);
  if (!reason.empty()) {
    send(from, JoinAnswer{configuration_, request.session, JoinAnswer::Kind::refused, 0, reason});
    return;
  }
  begin_session(from, request);
}

std::string Node::reason_to_refuse(const Member& from, const JoinRequest& request) {
  if (request.version != kReplicationVersion) {
    return "node " + std::to_string(from.node) + " replicates with version " +
           std::to_string(request.version) + ", its primary with " +
           std::to_string(kReplicationVersion);
  }
  if (stalled_) return "the primary has no room for its log";
  const Member& backup = configuration_.backup;
  if (backup && backup != from) {
    if (backup.node == from.node) want({});  // its earlier life has ended
    return "the shard has a backup";
  }
  if (peer_ && peer_->member != from) {
    if (peer_->member.node != from.node) return "another node is joining";
    lose_peer();
    if (peer_) return "its earlier life was joining";
  }
  return {};
}

void Node::begin_session(const Member& from, const JoinRequest& request) {
  if (peer_) end_transfer();
  // Asking again is no sign that anything arrives there: a node that does only that is lost as
  // well.
  const Time heard = peer_ ? peer_->heard : now_;
  const bool required = peer_ && peer_->required;
  peer_.emplace();
  peer_->member = from;
  peer_->session = request.session;
  peer_->required = required;
  peer_->heard = heard;
  peer_->spoken = peer_->progress = now_;
  peer_->gap_after = UINT64_MAX;
  const std::optional<Index> kept =
      request.runs.empty() ? std::nullopt
                           : rules_.kept(log_, request.runs, request.last, request.applied);
  if (kept) {
    peer_->feed = Peer::Feed::tail;
    peer_->next = *kept + 1;
    send(from, JoinAnswer{configuration_, request.session, JoinAnswer::Kind::tail, *kept, {}});
    replicate();
    return;
  }
  peer_->feed = Peer::Feed::opening;
  peer_->transfer = ++transfer_;
  add(OpenSnapshot{peer_->transfer});
  send(from, JoinAnswer{configuration_, request.session, JoinAnswer::Kind::snapshot, 0, {}});
}

void Node::on(const Member& from, const AppendAck& ack) {
  Peer* peer = peer_in(from, ack.session);
  if (peer == nullptr || ack.epoch != configuration_.epoch || peer->feed != Peer::Feed::tail) {
    return;
  }
  peer->heard = now_;
  if (ack.written > peer->written || ack.synced > peer->synced) peer->progress = now_;
  peer->written = std::max(peer->written, ack.written);
  peer->synced = std::max(peer->synced, ack.synced);
  peer->next = std::max(peer->next, peer->written + 1);
  // Once for each place, and again after a while: all that follows what was lost brings a gap.
  if (ack.gap && (ack.last != peer->gap_after || now_ > peer->gap_time + options_.retry_interval)) {
    peer->gap_after = ack.last;
    peer->gap_time = now_;
    peer->next = std::max(peer->written, std::min(peer->next - 1, ack.last)) + 1;
  }
  admit_if_ready();
  advance();
  replicate();
}

void Node::on(const Member& from, const PieceAck& ack) {
  Peer* peer = peer_in(from, ack.session);
  if (peer == nullptr || ack.epoch != configuration_.epoch) return;
  peer->heard = now_;
  if (peer->feed != Peer::Feed::snapshot || ack.received > peer->total) return;
  if (ack.received > peer->received) {
    peer->received = ack.received;
    peer->sent = std::max(peer->sent, ack.received);
    peer->progress = now_;
  }
  if (ack.installed) {
    end_transfer();
    peer->feed = Peer::Feed::tail;
    peer->next = peer->at.index + 1;
    peer->written = peer->synced = peer->at.index;
    admit_if_ready();
    advance();
  }
  replicate();
}

void Node::on(const Member& from, const Refusal& refusal) {
  if (refusal.epoch > configuration_.epoch) {
    report();  // the answer says who is primary now
    return;
  }
  if (refusal.kind != Refusal::Kind::old_epoch && peer_in(from, refusal.session) != nullptr) {
    lose_peer();
  }
}

Effects Node::snapshot_opened(Time now, std::uint64_t transfer, Position at_position,
                              std::uint64_t bytes) {
  at(now);
  if (!peer_ || peer_->feed != Peer::Feed::opening || peer_->transfer != transfer) return done();
  if (log_.epoch_of(at_position.index) != at_position.epoch || bytes == 0) {
    return snapshot_failed(now, transfer);  // the log doesn't follow it
  }
  peer_->feed = Peer::Feed::snapshot;
  peer_->at = at_position;
  peer_->total = bytes;
  peer_->progress = now_;
  replicate();
  return done();
}

Effects Node::snapshot_failed(Time now, std::uint64_t transfer) {
  at(now);
  if (peer_ && peer_->transfer == transfer) {
    end_transfer();
    lose_peer();
  }
  return done();
}

}  // namespace convoy::server::replication
