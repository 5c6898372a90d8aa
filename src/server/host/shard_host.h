// One node of one shard: a replication::Node, its state, its files and its threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/log.h"
#include "server/host/batch_desk.h"
#include "server/host/cut_holds.h"
#include "server/host/lane.h"
#include "server/host/node_folder.h"
#include "server/host/peer_feed.h"
#include "server/host/recent_entries.h"
#include "server/replication/node.h"
#include "server/service/batch_calls.h"
#include "server/service/shard_calls.h"
#include "server/state/shard_state.h"

namespace convoy::server::host {

struct ShardHostSettings {
  std::string job;
  std::uint32_t shard = 0;
  // With an incarnation that this node never had before (replication/types.h).
  replication::Member self;
  replication::NodeOptions node;
  std::string boot = boot_id();
  std::uint64_t memory_limit = std::uint64_t{1} << 40;  // of the slices; the same on all nodes
  // A snapshot is taken when the log since the one before has more bytes than this, and than half
  // of the state.
  std::uint64_t snapshot_bytes = std::uint64_t{64} << 20;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  // Without a disk: commands kept for a node that comes back soon.
  std::uint64_t recent_bytes = std::uint64_t{64} << 20;
  std::function<Clock::time_point()> time = Clock::now;  // tests have another one
  convoy::Log log;
};

// What a host needs of the process that it is in. All are called by threads of the host, or by
// those that call it, and must not call it back before they return.
struct HostLinks {
  // Sends to another node, in this order. `arrived` (null: nobody asks) is called once, later, with
  // whether they did; or never, when the process ends.
  std::function<void(std::uint64_t node, std::vector<replication::Message> messages,
                     std::function<void(bool)> arrived)>
      to_node;
  std::function<void(replication::Message message)> to_authority;
  // Nothing that this node did since can be relied on: the process has to end.
  std::function<void(const std::string& why)> fatal;
  // Has another node keep a copy of a group (calls::kGroupCopy); `arrived` says, later, whether it
  // has it. Null: groups are on this node alone.
  std::function<void(std::uint64_t node, transport::Message copy,
                     std::function<void(bool)> arrived)>
      group_to_node = {};
};

// Carries out what the node wants done, as docs/server-replication.md has it. What takes long has
// threads of its own: writing the log, syncing it, applying commands, snapshots; so that neither
// fetches nor signs of life wait for any of it.
//
// Threads: any. An `Answer` is called once, unless the host ends before, from any thread, perhaps
// before the call returns; it must not call the host.
class ShardHost {
 public:
  // Opens the folder; without a disk nothing outlives this object. Throws UsageError for another
  // owner's folder, Failure when the disk can't be used.
  ShardHost(ShardHostSettings settings, std::unique_ptr<Disk> disk, HostLinks links);
  ~ShardHost();  // as if the process had been killed
  ShardHost(const ShardHost&) = delete;
  ShardHost& operator=(const ShardHost&) = delete;

  // From here on it takes part.
  void start();
  // Ends in order: what is written is synced, and the folder says so.
  void close();
  // Ends as it stands. No link is called after this. Also done by close().
  void stop();

  void receive(const replication::Message& message);
  // Answered when it is committed and applied, with the shard's reply.
  void command(replication::Command command, Answer answer);
  // In the caller's thread.
  calls::Answered fetch(const calls::FetchRequest& request) const;
  void cut(calls::CutRequest request, Answer answer);

  // --- a batch optimizer's vectors ---
  calls::Answered dots(const calls::DotsRequest& request) const;
  calls::Answered vector(const calls::VectorRequest& request) const;
  calls::Answered vectors() const;
  // `message`: all of the request, with owners of its parts.
  void group(const calls::GroupRequest& request, const transport::Message& message, Answer answer);
  void seal(const calls::SealRequest& request, Answer answer);
  calls::Answered missing(const calls::EvaluationRequest& request);
  // Of the primary's; whether this node is its backup, and has it now.
  bool keep_copy(const calls::CopyRequest& copy);

  calls::ShardReport report() const;

  replication::Role role() const { return role_; }
  std::uint32_t shard() const { return settings_.shard; }

 private:
  using Effects = replication::Effects;
  struct Job;
  struct Incoming;

  Clock::time_point time_now() const { return settings_.time(); }
  replication::Time now() const;
  // Gives the node an event and carries out what follows.
  template <typename Event>
  void event(const Event& event);
  void execute(Effects effects);
  void clock();
  void tick();
  void tell(const std::string& line) const;
  void broken(const std::string& why);

  // --- the log (host_log.cc) ---
  void on(replication::WriteLog& effect);
  void on(replication::TruncateLog& effect);
  void on(replication::SyncLog& effect);
  void on(replication::CutLog& effect);
  void on(replication::Admitted& effect);
  void no_room(const std::string& why, std::uint64_t bytes);
  void save_whole();
  void probe();
  void trim();

  // --- messages (host_messages.cc) ---
  void on(replication::Send& effect);
  void on(replication::SendEntries& effect);
  void on(replication::SendPiece& effect);
  void feed(PeerFeed::Item item);
  void pump();
  void pump_from_disk(PeerFeed::Batch batch);
  void deliver(PeerFeed::Batch batch);

  // --- the state (host_state.cc) ---
  void on(replication::Apply&) {}  // with the replies that follow
  void on(replication::Reply&) {}
  void on(replication::Reject& effect);
  void on(replication::RoleChanged& effect);
  void apply(replication::Index through, std::vector<std::pair<Answer, replication::Index>> asked);
  void run(const Job& job);
  // Commands from the log, in order: of these the first ones, with about so many bytes, but at
  // least one.
  std::vector<replication::Entry> logged(replication::Index first, replication::Index last,
                                         std::uint64_t limit) const;
  void propose(replication::Command command, Answer answer);
  void look_at_cuts();
  void carry_out(CutHolds::Decided decided);
  void make_cut(CutHolds::Cut cut);
  void note_size();
  void update_side_by_side();

  // --- a batch optimizer's vectors (host_batch.cc) ---
  std::optional<calls::Answered> not_serving() const;
  void send_copies();
  void copy_ended(std::uint64_t number, const replication::Member& to, bool arrived);
  void copy_groups_to_backup();

  // --- snapshots (host_snapshots.cc) ---
  void on(replication::OpenSnapshot& effect);
  void on(replication::CloseSnapshot& effect);
  void on(replication::StorePiece& effect);
  void on(replication::InstallSnapshot& effect);
  void on(replication::DiscardSnapshot& effect);
  std::shared_ptr<const StateImage> image(SnapshotId& id);
  void save_snapshot();
  SnapshotId write_snapshot(std::uint64_t loads);
  void open_snapshot(std::uint64_t transfer);
  bool install(Incoming& incoming, const replication::Position& at);
  void prune();

  const ShardHostSettings settings_;
  const HostLinks links_;
  const replication::Rules rules_;
  std::unique_ptr<Disk> memory_;        // for snapshots, without a folder
  std::optional<Snapshots> in_memory_;  // the same
  std::optional<NodeFolder> folder_;
  Snapshots* snapshots_ = nullptr;  // one of both
  ShardState state_;
  BatchDesk desk_{state_};

  std::vector<std::unique_ptr<Lane>> helpers_;  // of large updates

  std::atomic<replication::Role> role_ = replication::Role::idle;
  // As primary, with all applied that another one may have acknowledged before.
  std::atomic<bool> serves_ = false;
  std::atomic<std::uint64_t> memory_bytes_ = 0;    // of the slices
  std::atomic<std::uint64_t> since_snapshot_ = 0;  // bytes of commands applied
  mutable std::atomic<std::uint64_t> fetched_bytes_ = 0;
  std::atomic<std::uint64_t> pushed_bytes_ = 0;
  std::atomic<bool> cuts_asked_ = false;
  std::atomic<bool> stopped_ = false;
  // Of the lane that applies.
  std::uint64_t applied_epoch_ = 0;

  mutable std::mutex mutex_;  // of all that follows. Nothing waits while it is held
  std::optional<replication::Node> node_;
  std::deque<std::function<Effects()>> next_;  // events that follow from those under way
  RecentEntries recent_;
  replication::Index written_ = 0;     // in the log
  replication::Index dispatched_ = 0;  // given to the lane that applies
  replication::Token last_token_ = 0;
  // A gradient is being made: who asks again before it is there makes no second one.
  std::atomic<bool> sealing_ = false;
  std::unordered_map<replication::Token, Answer> askers_;
  CutHolds cuts_;
  // A group that the backup has yet to get, and who waits for that.
  struct GroupCopy {
    BatchDesk::Copy what;
    Answer answer;  // null: nobody
    bool under_way = false;
    Clock::time_point again = {};  // when it may be sent, if it is not
    replication::Member arrived = {};
  };
  std::map<std::uint64_t, GroupCopy> copies_;
  std::uint64_t last_copy_ = 0;
  replication::Member has_groups_;  // the backup that gets every group
  PeerFeed feed_;
  std::uint64_t loads_ = 0;  // how often a snapshot took the place of all
  bool saving_ = false;
  bool save_failed_ = false;
  Clock::time_point save_after_{};
  bool whole_pending_ = false;
  bool probing_ = false;
  std::uint64_t room_wanted_ = 0;  // by what couldn't be written
  Clock::time_point probe_after_{};
  std::string last_line_;
  Clock::time_point last_line_at_{};
  std::map<std::uint64_t, std::optional<SnapshotId>> sending_;  // nothing: it is being made
  std::map<std::uint64_t, std::shared_ptr<Incoming>> receiving_;
  replication::Position incoming_at_;  // of the piece that the node is looking at

  std::mutex snapshots_mutex_;  // who changes which snapshots there are; taken before mutex_

  std::mutex clock_mutex_;
  std::condition_variable clock_changed_;
  bool clock_ends_ = false;
  std::thread clock_;

  // Ended in this order: one that waits for another one's work is ended before it.
  Lane snapshot_lane_, log_lane_, sync_lane_, feed_lane_, apply_lane_;
};

// Whether it is of a batch optimizer's vectors.
bool is_batch_command(std::span<const std::byte> command);

// Commands that are applied, and who asked for some of them.
struct ShardHost::Job {
  replication::Index first = 0, last = 0;
  std::vector<replication::Entry> entries;  // the last ones of these; the others are in the log
  std::vector<std::pair<Answer, replication::Index>> asked;
  bool within_event = false;
};

template <typename Event>
void ShardHost::event(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  execute(event());
  while (!next_.empty()) {
    const auto next = std::move(next_.front());
    next_.pop_front();
    execute(next());
  }
}

}  // namespace convoy::server::host
