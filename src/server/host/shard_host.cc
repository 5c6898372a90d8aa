#include "server/host/shard_host.h"

#include <algorithm>
#include <random>

#include "convoy/base/error.h"
#include "server/log/memory_disk.h"

namespace convoy::server::host {
namespace {

constexpr auto kTick = std::chrono::milliseconds(10);

}  // namespace

ShardHost::ShardHost(ShardHostSettings settings, std::unique_ptr<Disk> disk, HostLinks links)
    : settings_(std::move(settings)),
      links_(std::move(links)),
      state_(settings_.memory_limit),
      snapshot_lane_([this](const std::string& why) { broken(why); }),
      log_lane_([this](const std::string& why) { broken(why); }),
      sync_lane_([this](const std::string& why) { broken(why); }),
      feed_lane_([this](const std::string& why) { broken(why); }),
      apply_lane_([this](const std::string& why) { broken(why); }) {
  update_side_by_side();
  replication::NodeStart start;
  start.shard = settings_.shard;
  start.self = settings_.self;
  if (disk) {
    FolderSettings folder;
    folder.owner = {settings_.job, settings_.shard,
                    "server " + std::to_string(settings_.self.node)};
    folder.boot = settings_.boot;
    folder.durability = static_cast<server::Durability>(settings_.node.durability);
    folder.segment_bytes = settings_.segment_bytes;
    std::random_device random;
    folder.random = std::uint64_t{random()} << 32 | random();
    std::vector<std::string> lines;
    folder_.emplace(std::move(disk), folder, state_, lines);
    for (const std::string& line : lines) tell(line);
    snapshots_ = &folder_->snapshots();
    start.log = folder_->shape();
    start.applied = folder_->loaded().index;
    start.synced =
        std::clamp(folder_->log().synced_index(), start.log.base().index, start.log.last());
    start.whole = folder_->identity().whole();
    applied_epoch_ = folder_->loaded().epoch;
  } else {
    memory_ = memory_disk("(memory of shard " + std::to_string(settings_.shard) + ")");
    snapshots_ = &in_memory_.emplace(*memory_);
    start.whole = false;
  }
  recent_.reset(start.log.last());
  written_ = start.log.last();
  dispatched_ = start.applied;
  note_size();
  node_.emplace(start, settings_.node, rules_);
}

ShardHost::~ShardHost() { stop(); }

replication::Time ShardHost::now() const {
  return static_cast<replication::Time>(
      std::chrono::duration_cast<std::chrono::microseconds>(time_now().time_since_epoch()).count());
}

void ShardHost::tell(const std::string& line) const {
  settings_.log.info("shard " + std::to_string(settings_.shard) + ": " + line);
}

void ShardHost::broken(const std::string& why) {
  if (!stopped_) links_.fatal("shard " + std::to_string(settings_.shard) + ": " + why);
}

void ShardHost::start() {
  clock_ = std::thread([this] { clock(); });
}

void ShardHost::clock() {
  std::unique_lock lock(clock_mutex_);
  while (!clock_ends_) {
    lock.unlock();
    tick();
    lock.lock();
    clock_changed_.wait_for(lock, kTick, [&] { return clock_ends_; });
  }
}

void ShardHost::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  {
    const std::lock_guard lock(clock_mutex_);
    clock_ends_ = true;
    clock_changed_.notify_all();
  }
  if (clock_.joinable()) clock_.join();
  for (Lane* lane : {&snapshot_lane_, &log_lane_, &sync_lane_, &feed_lane_, &apply_lane_}) {
    lane->stop();
  }
  for (const auto& helper : helpers_) helper->stop();
}

void ShardHost::close() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  log_lane_.drain();
  stop();
  if (!folder_) return;
  folder_->log().sync();
  folder_->identity().close(folder_->log());
}

void ShardHost::execute(Effects effects) {
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (const auto* applied = std::get_if<replication::Apply>(&effects[i])) {
      std::vector<std::pair<Answer, replication::Index>> asked;
      const replication::Reply* reply;
      while (i + 1 < effects.size() &&
             (reply = std::get_if<replication::Reply>(&effects[i + 1])) != nullptr) {
        const auto asker = askers_.extract(reply->token);
        if (asker) asked.emplace_back(std::move(asker.mapped()), reply->index);
        ++i;
      }
      apply(applied->through, std::move(asked));
    } else {
      std::visit([this](auto& each) { on(each); }, effects[i]);
    }
  }
}

void ShardHost::tick() {
  event([this] {
    const auto time = time_now();
    if (!cuts_.empty()) {
      next_.push_back([this] {
        look_at_cuts();
        return Effects{};
      });
    }
    if (!copies_.empty()) {
      next_.push_back([this] {
        send_copies();
        return Effects{};
      });
    }
    if (folder_) {
      if (!node_->able() && !probing_ && time >= probe_after_) probe();
      if (whole_pending_) save_whole();
      const std::uint64_t bound = std::max(settings_.snapshot_bytes, memory_bytes_ / 2);
      const bool due = since_snapshot_ > bound || save_failed_;
      if (due && !saving_ && time >= save_after_) save_snapshot();
    }
    trim();
    return node_->tick(now());
  });
}

void ShardHost::receive(const replication::Message& message) {
  event([&] {
    if (const auto* piece = std::get_if<replication::SnapshotPiece>(&message.body)) {
      incoming_at_ = piece->at;
    }
    const auto* ack = std::get_if<replication::AppendAck>(&message.body);
    if (ack != nullptr && ack->gap) feed_.gap(ack->session, ack->last);
    return node_->receive(now(), message);
  });
}

void ShardHost::command(replication::Command command, Answer answer) {
  event([&] {
    const auto push = push_head(*command);
    if (push) pushed_bytes_ += command->size();
    CutHolds::Waiting waiting{std::move(command), std::move(answer)};
    if (push && cuts_.hold(*push, waiting)) return Effects{};
    propose(std::move(waiting.command), std::move(waiting.answer));
    return Effects{};
  });
}

calls::ShardReport ShardHost::report() const {
  calls::ShardReport report;
  report.server = settings_.self.node;
  {
    const std::lock_guard lock(mutex_);
    const replication::Configuration& configuration = node_->configuration();
    const replication::Role role = node_->role();
    // Before it serves its values may be of before.
    report.role = static_cast<std::uint8_t>(
        role == replication::Role::primary && !serves_ ? replication::Role::backup : role);
    report.epoch = configuration.epoch;
    report.primary = configuration.primary.node;
    report.backup = configuration.backup.node;
    if (const auto acknowledged = node_->backup_acknowledged()) {
      report.backup_lag = node_->log().last() - std::min(node_->log().last(), *acknowledged);
    }
  }
  if (folder_) report.log_bytes = folder_->log().bytes();
  report.memory_bytes = memory_bytes_ + desk_.bytes();
  report.vectors = desk_.report();
  report.fetched_bytes = fetched_bytes_;
  report.pushed_bytes = pushed_bytes_;
  ShardStatus status = state_.status();
  report.applied = status.applied;
  report.round = status.round;
  report.versions = std::move(status.versions);
  report.clients = std::move(status.clients);
  report.staleness = status.staleness;
  report.ledger = status.ledger;
  report.cuts = std::move(status.cuts);
  return report;
}

}  // namespace convoy::server::host
