// What a host does with snapshots: its own, those that it sends, and those that it receives.
#include <algorithm>
#include <future>
#include <utility>

#include "convoy/base/error.h"
#include "server/host/shard_host.h"

namespace convoy::server::host {
namespace {

constexpr auto kSaveAgain = std::chrono::seconds(10);

}  // namespace

// A snapshot on its way in.
struct ShardHost::Incoming {
  std::unique_ptr<SnapshotReceiver> receiver;
  SnapshotId id;
  std::string problem;  // why it can't be installed
};

// --- its own ---

// The state when all that was to be applied by now is. Waits for the lane that applies.
std::shared_ptr<const StateImage> ShardHost::image(SnapshotId& id) {
  auto made = std::make_shared<std::promise<std::shared_ptr<const StateImage>>>();
  auto image = made->get_future();
  apply_lane_.add([this, made, &id] {
    auto now = state_.image();
    id = {now->index(), applied_epoch_};
    since_snapshot_ = 0;
    made->set_value(std::move(now));
  });
  made.reset();
  return image.get();
}

// Writes one unless there is one that is as new, or `loads` is not how often one was installed any
// more: then what this node had before may be of another history.
SnapshotId ShardHost::write_snapshot(std::uint64_t loads) {
  SnapshotId id;
  const auto state = image(id);
  const std::lock_guard lock(snapshots_mutex_);
  {
    const std::lock_guard node(mutex_);
    if (loads != loads_) throw Failure("another one was installed meanwhile");
  }
  const auto there = snapshots_->list();
  if (!there.empty() && there.back().index >= id.index) return there.back();
  snapshots_->write(id, [&](SnapshotSink& sink) { state->save(sink); });
  prune();
  return id;
}

// Those that are being sent stay. With snapshots_mutex_.
void ShardHost::prune() {
  {
    const std::lock_guard lock(mutex_);
    if (!sending_.empty()) return;
  }
  snapshots_->keep_newest(folder_ ? 2 : 0);
}

void ShardHost::save_snapshot() {
  saving_ = true;
  snapshot_lane_.add([this, loads = loads_] {
    std::string problem;
    try {
      write_snapshot(loads);
    } catch (const Failure& error) {
      problem = error.what();
    }
    replication::Index older = 0;
    {
      const std::lock_guard lock(snapshots_mutex_);
      const auto there = snapshots_->list();
      if (there.size() >= 2) older = there[there.size() - 2].index;
    }
    if (!problem.empty() && !stopped_) tell("no snapshot was saved: " + problem);
    event([&] {
      saving_ = false;
      save_failed_ = !problem.empty();
      if (save_failed_) save_after_ = time_now() + kSaveAgain;
      return loads == loads_ ? node_->snapshot_saved(now(), older) : Effects{};
    });
  });
}

// --- those that it sends ---

void ShardHost::on(replication::OpenSnapshot& effect) {
  const std::uint64_t transfer = effect.transfer;
  sending_[transfer] = std::nullopt;
  snapshot_lane_.add([this, transfer] { open_snapshot(transfer); });
}

void ShardHost::open_snapshot(std::uint64_t transfer) {
  std::uint64_t loads;
  {
    const std::lock_guard lock(mutex_);
    loads = loads_;
  }
  try {
    SnapshotId id;
    {
      const std::lock_guard lock(snapshots_mutex_);
      const auto there = snapshots_->list();
      if (!there.empty()) id = there.back();  // the log follows it
    }
    if (id == SnapshotId{}) id = write_snapshot(loads);
    const std::uint64_t bytes = snapshots_->size(id);
    event([&] {
      const auto found = sending_.find(transfer);
      if (found != sending_.end()) found->second = id;
      return node_->snapshot_opened(now(), transfer, {id.epoch, id.index}, bytes);
    });
  } catch (const Failure& error) {
    if (!stopped_) tell(std::string("no snapshot can be sent: ") + error.what());
    event([&] { return node_->snapshot_failed(now(), transfer); });
  }
}

void ShardHost::on(replication::CloseSnapshot& effect) {
  sending_.erase(effect.transfer);
  snapshot_lane_.add([this] {
    const std::lock_guard lock(snapshots_mutex_);
    prune();
  });
}

// --- those that it receives ---

// A few MiB at a time, into the system's cache: so no more of it is ever in this process's memory.
void ShardHost::on(replication::StorePiece& effect) {
  auto& incoming = receiving_[effect.transfer];
  try {
    if (!incoming) {
      incoming = std::make_shared<Incoming>();
      incoming->id = {incoming_at_.index, incoming_at_.epoch};
      Disk& disk = folder_ ? folder_->disk() : *memory_;
      incoming->receiver = std::make_unique<SnapshotReceiver>(disk, incoming->id);
    }
    if (incoming->receiver) incoming->receiver->append(effect.bytes);
  } catch (const Failure& error) {
    incoming->problem = error.what();
    incoming->receiver.reset();
  }
}

void ShardHost::on(replication::DiscardSnapshot& effect) { receiving_.erase(effect.transfer); }

void ShardHost::on(replication::InstallSnapshot& effect) {
  const auto found = receiving_.extract(effect.transfer);
  if (!found) return;
  const replication::InstallSnapshot step = effect;
  const auto incoming = found.mapped();
  const auto body = [this, step, incoming] {
    const bool installed = install(*incoming, step.at);
    event([&] {
      if (installed) {
        recent_.reset(step.at.index);
        written_ = dispatched_ = step.at.index;
      }
      return node_->snapshot_installed(now(), step.transfer, installed);
    });
  };
  log_lane_.add(body);
}

// By the thread of the log.
bool ShardHost::install(Incoming& incoming, const replication::Position& at) {
  const std::lock_guard lock(snapshots_mutex_);
  try {
    if (!incoming.receiver) throw Failure(incoming.problem);
    if (incoming.id != SnapshotId{at.index, at.epoch}) throw Failure("it is another one");
    incoming.receiver->commit();
  } catch (const Failure& error) {
    tell(std::string("a snapshot can't be installed: ") + error.what());
    return false;
  }
  auto made = std::make_shared<std::promise<void>>();
  auto loaded = made->get_future();
  apply_lane_.add([this, made, id = incoming.id] {
    try {
      snapshots_->read(id, [&](SnapshotSource& source) { state_.load(source); });
      desk_.loaded();
      applied_epoch_ = id.epoch;
      since_snapshot_ = 0;
      note_size();
      made->set_value();
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  });
  made.reset();
  try {
    loaded.get();
  } catch (const std::exception& error) {
    // Nothing of it may be found when the node starts again.
    snapshots_->remove(incoming.id);
    tell(std::string("a snapshot that was received can't be read: ") + message_of(error));
    return false;
  }
  {
    const std::lock_guard node(mutex_);
    ++loads_;
  }
  if (folder_) folder_->log().reset(at.index, at.epoch);
  snapshots_->keep_newest(folder_ ? 1 : 0);
  return true;
}

}  // namespace convoy::server::host
