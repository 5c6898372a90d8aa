// A member of one shard: primary, backup, joiner or idle.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "server/replication/effects.h"
#include "server/replication/log_shape.h"
#include "server/replication/messages.h"
#include "server/replication/rules.h"
#include "server/replication/sessions.h"
#include "server/replication/types.h"

namespace convoy::server::replication {

struct NodeOptions {
  Durability durability = Durability::replicated;
  Time report_interval = milliseconds(200);     // to the authority
  Time heartbeat_interval = milliseconds(100);  // to the backup, when there is nothing else to say
  Time peer_timeout = milliseconds(2000);       // a primary or backup that says nothing is lost
  Time retry_interval = milliseconds(300);      // what wasn't answered is sent again
  Time sync_interval = milliseconds(100);       // of the log, with Durability::replicated
  std::uint64_t message_bytes = std::uint64_t{4} << 20;   // of commands, or one command
  std::uint64_t window_bytes = std::uint64_t{256} << 20;  // sent and not yet written by the backup
  std::uint64_t piece_bytes = std::uint64_t{4} << 20;     // of a snapshot
  std::uint64_t piece_window_bytes = std::uint64_t{16} << 20;
  std::uint64_t pending_bytes = std::uint64_t{1} << 30;  // of commands not committed; then "busy"
  std::uint64_t joint_lag = 64;  // commands that a joiner may lack when the primary waits for it
};

// What a host found on its disk.
struct NodeStart {
  std::uint32_t shard = 0;
  Member self;       // with a new incarnation
  LogShape log;      // all of it written
  Index synced = 0;  // of the log; at least its base
  Index applied =
      0;  // of the snapshot that was loaded; not after the log's end, nor before its base
  bool whole = true;  // nothing is missing that this node ever acknowledged
};

// Driven by events, each of which returns what is to be done, in order. Events come one at a time,
// from any thread. A clock that jumps back is taken for one that stood
// still. Nothing is waited for: a host calls tick() every few tens of milliseconds.
class Node {
 public:
  // REQUIRES: rules outlive the node.
  Node(const NodeStart& start, const NodeOptions& options, const Rules& rules);

  Effects tick(Time now);
  // A command for the shard: a Reply or a Reject with this token follows, now or later, once.
  Effects propose(Time now, Token token, Command command);
  // Messages for others, from earlier lives or of other shards are ignored.
  Effects receive(Time now, const Message& message);

  Effects log_written(Time now, std::uint64_t ticket);  // this one and all before
  Effects log_synced(Time now, std::uint64_t ticket);   // the same
  // The log has no room: commands after `last` are not in it. A host whose sync failed ends
  // instead, since nobody knows what is on its disk.
  Effects log_failed(Time now, Index last);
  Effects log_usable(Time now);  // there is room again

  // Commands up to `index` are in a snapshot of this node that would survive a power cut.
  Effects snapshot_saved(Time now, Index index);
  Effects snapshot_opened(Time now, std::uint64_t transfer, Position at, std::uint64_t bytes);
  Effects snapshot_failed(Time now, std::uint64_t transfer);
  Effects snapshot_installed(Time now, std::uint64_t transfer, bool installed);

  const Member& self() const { return self_; }
  const Configuration& configuration() const { return configuration_; }
  Role role() const { return role_; }
  bool able() const { return able_; }
  const LogShape& log() const { return log_; }
  Index committed() const { return committed_; }
  Index applied() const { return applied_; }
  // Primary: what the backup has acknowledged; nothing without a backup.
  std::optional<Index> backup_acknowledged() const;

 private:
  // A command of the log that a ticket stands for: its last one after that step.
  struct Step {
    std::uint64_t ticket = 0;
    Index last = 0;
  };

  struct Waiting {
    Index index = 0;
    Token token = 0;
  };

  Effects done();
  template <typename T>
  void add(T effect) {
    effects_.emplace_back(std::move(effect));
  }
  void at(Time now);
  void send(const Member& to, Body body);
  void report();
  void adopt(const Configuration& configuration, const char* why);
  void become(Role role, const std::string& why);
  void write(std::vector<Entry> entries);
  void truncate(Index after);
  void sync_if_due();
  void step_reached(std::deque<Step>& steps, std::uint64_t ticket, Index& reached);
  void log_advanced();
  void apply();
  void cut();
  Index own_acknowledged() const;

  // As primary (node_primary.cc).
  void lead(const std::string& why);
  void step_down(const std::string& why);
  void reject_waiting(const std::string& why);
  void want(const Member& backup);
  void count_pending();
  void tick_primary();
  void advance();
  void replicate();
  void send_tail(bool even_if_empty);
  void send_pieces();
  void end_peer();
  void end_session();
  void end_transfer();
  void lose_peer();
  void admit_if_ready();
  Peer* peer_in(const Member& from, std::uint64_t session);
  void on(const Member& from, const JoinRequest& request);
  void on(const Member& from, const AppendAck& ack);
  void on(const Member& from, const PieceAck& ack);
  void on(const Member& from, const Refusal& refusal);
  void begin_session(const Member& from, const JoinRequest& request);
  std::string reason_to_refuse(const Member& from, const JoinRequest& request);

  // As backup or joiner (node_follower.cc).
  void ask();
  bool may_ask() const;
  void tick_follower();
  void drop_incoming();
  void acknowledge(bool gap);
  bool follows(const Member& from, const Configuration& configuration, std::uint64_t session);
  void on(const Member& from, const JoinAnswer& answer);
  void on(const Member& from, const SnapshotPiece& piece);
  void on(const Member& from, const Append& append);

  void on(const Member& from, const Newest& newest);
  void on(const Member&, const Report&) {}  // these are for the authority
  void on(const Member&, const Change&) {}

  const std::uint32_t shard_;
  const Member self_;
  const NodeOptions options_;
  const Rules& rules_;
  const Position began_;  // what the node was started with
  const bool whole_;

  Effects effects_;
  Time clock_ = 0;  // the last time that was given
  Time now_ = 0;    // time that has passed, as far as that can be known
  Time next_report_ = 0;
  Stamp stamp_;  // the authority's last

  LogShape log_;
  bool able_ = true;
  std::uint64_t ticket_ = 1;  // the first one stands for what the node was started with
  Index written_ = 0;
  Index synced_ = 0;
  std::deque<Step> unwritten_, unsynced_;
  std::uint64_t syncing_ = 0;  // the ticket of the sync under way
  Time last_sync_ = 0;
  Index committed_ = 0;
  Index applied_ = 0;
  Index saved_ = 0;

  Configuration configuration_;
  Role role_ = Role::idle;

  // As primary it takes commands unless stalled: its log failed in this epoch, so that it can't
  // give an index for the second time.
  bool stalled_ = false;
  std::optional<Peer> peer_;
  std::deque<Waiting> waiting_;
  std::uint64_t pending_bytes_ = 0;
  std::optional<Configuration> wanted_;
  Time wanted_sent_ = 0;
  std::uint64_t transfer_ = 0;

  std::optional<Following> following_;
  std::uint64_t session_ = 0;
};

}  // namespace convoy::server::replication
