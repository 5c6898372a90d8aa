// What a host does with its log: one step after another, in a thread of its own.
#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "server/host/shard_host.h"

namespace convoy::server::host {
namespace {

constexpr std::uint64_t kProbeBytes = std::uint64_t{4} << 20;
constexpr auto kProbeInterval = std::chrono::milliseconds(500);
// Of commands in memory that only the backup has yet to acknowledge; the log has them, too.
constexpr std::uint64_t kUnacknowledgedBytes = std::uint64_t{256} << 20;

}  // namespace

void ShardHost::on(replication::WriteLog& effect) {
  for (const replication::Entry& entry : effect.entries) recent_.append(entry);
  const std::uint64_t ticket = effect.ticket;
  if (!folder_) {
    written_ = recent_.last();
    next_.push_back([this, ticket] { return node_->log_written(now(), ticket); });
    return;
  }
  log_lane_.add([this, ticket, entries = std::move(effect.entries)] {
    std::uint64_t bytes = 0;
    try {
      for (const replication::Entry& entry : entries) {
        bytes = entry.command->size();
        folder_->log().append(entry.index, entry.epoch, *entry.command);
      }
    } catch (const DiskFull& error) {
      return no_room(error.what(), bytes);
    }
    event([&] {
      written_ = entries.back().index;
      return node_->log_written(now(), ticket);
    });
  });
}

void ShardHost::on(replication::TruncateLog& effect) {
  recent_.truncate_after(effect.after);
  written_ = std::min(written_, effect.after);
  const replication::TruncateLog step = effect;
  if (!folder_) {
    next_.push_back([this, step] { return node_->log_written(now(), step.ticket); });
    return;
  }
  log_lane_.add([this, step] {
    folder_->log().truncate_after(step.after);
    event([&] { return node_->log_written(now(), step.ticket); });
  });
}

// When its turn has come, all that it is to sync is written; what comes later is written meanwhile.
void ShardHost::on(replication::SyncLog& effect) {
  const std::uint64_t ticket = effect.ticket;
  if (!folder_) {
    next_.push_back([this, ticket] { return node_->log_synced(now(), ticket); });
    return;
  }
  log_lane_.add([this, ticket] {
    sync_lane_.add([this, ticket] {
      folder_->log().sync();
      event([&] { return node_->log_synced(now(), ticket); });
    });
  });
}

void ShardHost::on(replication::CutLog& effect) {
  const replication::Index before = effect.before;
  if (!folder_) return recent_.drop_before(before);
  log_lane_.add([this, before] { folder_->log().cut_before(before); });
}

// What waits behind a write that failed is dropped: the node truncates its log to what there is. By
// the thread of the log.
void ShardHost::no_room(const std::string& why, std::uint64_t bytes) {
  tell(why + ": it takes no part until there is room");
  event([&] {
    log_lane_.clear();
    probing_ = false;
    room_wanted_ = bytes + kProbeBytes;
    probe_after_ = time_now() + kProbeInterval;
    const replication::Index last = folder_->log().last_index();
    Effects effects = node_->log_failed(now(), last);
    recent_.truncate_after(node_->log().last());
    written_ = std::min(written_, node_->log().last());
    return effects;
  });
}

void ShardHost::probe() {
  probing_ = true;
  log_lane_.add([this, bytes = room_wanted_] {
    const bool room = folder_->has_room(bytes);
    if (room) tell("there is room for the log again");
    event([&] {
      probing_ = false;
      probe_after_ = time_now() + kProbeInterval;
      return room ? node_->log_usable(now()) : Effects{};
    });
  });
}

void ShardHost::on(replication::Admitted&) {
  if (folder_) save_whole();
}

void ShardHost::save_whole() {
  whole_pending_ = false;
  sync_lane_.add([this] {
    try {
      folder_->set_whole();
    } catch (const DiskFull&) {
      const std::lock_guard lock(mutex_);
      whole_pending_ = true;
    }
  });
}

// Lets go of commands that nobody needs from memory.
void ShardHost::trim() {
  const replication::Index done = std::min(written_, dispatched_);
  if (!folder_) {
    // A node that comes back gets them from here, or else a snapshot.
    if (recent_.bytes() > settings_.recent_bytes && dispatched_ >= recent_.first()) {
      next_.push_back([this] { return node_->snapshot_saved(now(), dispatched_); });
    }
    return;
  }
  const auto acknowledged = node_->backup_acknowledged();
  recent_.drop_before(std::min(done, acknowledged.value_or(done)) + 1);
  while (recent_.bytes() > kUnacknowledgedBytes && recent_.first() <= done) {
    recent_.drop_before(recent_.first() + 1);
  }
}

}  // namespace convoy::server::host
