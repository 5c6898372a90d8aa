#include "tests/server/replication/host.h"

#include <algorithm>
#include <utility>

#include "tests/server/replication/world.h"

namespace convoy::server::replication::sim {

Time Host::now() const { return world_.now() + clock_ahead_; }

void Host::jump_clock(Time by, bool forward) {
  clock_ahead_ = forward ? clock_ahead_ + by : clock_ahead_ - std::min(clock_ahead_, by);
}

void Host::start() {
  if (node_) return;
  ++life_;
  disk_.recover();
  const Content& disk = disk_.written();
  memory_ = disk;
  ledger_ = Ledger::load(disk.snapshot.bytes);
  applied_ = image_ = disk.snapshot.at.index;
  NodeStart start;
  // A node that were the same as before would take its role back.
  start.self = {number_, world_.bug() == Bug::keeps_role_after_restart ? 1 : life_};
  start.log = LogShape(disk.base);
  for (const Entry& entry : disk.log) start.log.append({entry.epoch, entry.command->size()});
  start.synced = disk.base.index;
  start.applied = applied_;
  start.whole = disk.whole;
  node_ = std::make_unique<Node>(start, world_.node_options(), world_.rules());
  world_.trace("start " + text_of(start.self) + (start.whole ? " whole" : " cut") + " at " +
               std::to_string(start.log.position().epoch) + ":" + std::to_string(start.log.last()));
  tick();
}

void Host::kill() {
  ++life_;
  node_.reset();
  steps_.clear();
  stepping_ = false;
  sending_.clear();
  receiving_.clear();
  installing_ = 0;
  paused_until_ = 0;
}

void Host::cut_power() {
  kill();
  disk_.cut_power(world_.random());
  // Nobody can say what is missing; with synced logs nothing is.
  if (world_.durability() == Durability::replicated) disk_.mark_whole(false);
}

void Host::run(std::uint64_t life, const std::function<void()>& what) {
  if (life != life_ || !node_) return;
  if (world_.now() < paused_until_) {
    world_.after(paused_until_ - world_.now(), [this, life, what] { run(life, what); });
  } else {
    what();
  }
}

void Host::later(Time delay, std::function<void()> what) {
  world_.after(delay, [this, life = life_, what = std::move(what)] { run(life, what); });
}

void Host::tick() {
  later(milliseconds(10), [this] {
    execute(node_->tick(now()));
    if (!node_->able() && !disk_.full) execute(node_->log_usable(now()));
    if (applied_ >= image_ + 20) save_snapshot();
    tick();
  });
}

void Host::receive(const Message& message) {
  run(life_, [this, message] { execute(node_->receive(now(), message)); });
}

void Host::propose(Token token, const Command& command) {
  run(life_, [this, token, command] { execute(node_->propose(now(), token, command)); });
}

void Host::execute(Effects effects) {
  for (Effect& effect : effects) {
    std::visit([this](auto& each) { on(each); }, effect);
  }
}

// --- the log: one step after another ---

// `what` returns whether there was room.
void Host::step(Time delay, std::function<bool()> what) {
  steps_.emplace_back(delay, std::move(what));
  if (!stepping_) run_steps();
}

void Host::run_steps() {
  stepping_ = !steps_.empty();
  if (!stepping_) return;
  later(steps_.front().first, [this] {
    const auto what = std::move(steps_.front().second);
    steps_.pop_front();
    if (!what()) {
      steps_.clear();
      receiving_.erase(std::exchange(installing_, 0));
      world_.trace("no room on " + text_of(node_->self()));
      execute(node_->log_failed(now(), disk_.written().last()));
      memory_.truncate_after(node_->log().last());
    }
    run_steps();
  });
}

void Host::on(WriteLog& effect) {
  for (const Entry& entry : effect.entries) memory_.append(entry);
  step(world_.between(50, 1000), [this, effect] {
    for (const Entry& entry : effect.entries) {
      if (!disk_.append(entry)) return false;
    }
    execute(node_->log_written(now(), effect.ticket));
    return true;
  });
}

void Host::on(TruncateLog& effect) {
  memory_.truncate_after(effect.after);
  step(world_.between(50, 1000), [this, effect] {
    disk_.truncate_after(effect.after);
    execute(node_->log_written(now(), effect.ticket));
    return true;
  });
}

void Host::on(SyncLog& effect) {
  step(world_.between(500, 8000), [this, effect] {
    disk_.sync();
    execute(node_->log_synced(now(), effect.ticket));
    return true;
  });
}

void Host::on(CutLog& effect) {
  memory_.cut_before(effect.before);
  step(10, [this, effect] {
    disk_.cut_before(effect.before);
    return true;
  });
}

// --- messages ---

void Host::on(Send& effect) { world_.send(std::move(effect.message)); }

void Host::on(SendEntries& effect) {
  auto& append = std::get<Append>(effect.message.body);
  for (Index i = effect.first; i <= effect.last; ++i) {
    append.entries.push_back(memory_.log.at(i - memory_.base.index - 1));
  }
  world_.send(std::move(effect.message));
}

void Host::on(SendPiece& effect) {
  auto& piece = std::get<SnapshotPiece>(effect.message.body);
  const Bytes& bytes = sending_.at(effect.transfer).second;
  piece.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(piece.offset),
                     bytes.begin() + static_cast<std::ptrdiff_t>(piece.offset + effect.size));
  world_.send(std::move(effect.message));
}

// --- the state machine ---

void Host::on(Apply& effect) {
  if (node_->role() == Role::primary) {
    world_.checks().committed(node_->self(), node_->configuration().epoch);
  }
  while (applied_ < effect.through) {
    const Entry& entry = memory_.log.at(++applied_ - memory_.base.index - 1);
    world_.checks().applied(node_->self(), world_.member(node_->self()), entry);
    ledger_.apply(update_of(*entry.command));
  }
}

void Host::on(Reply& effect) { world_.reply(*this, effect.token, effect.index); }

void Host::on(Reject& effect) { world_.reject(effect.token, effect); }

// --- snapshots ---

void Host::save_snapshot() {
  image_ = applied_;
  const SavedState image{{*node_->log().epoch_of(applied_), applied_},
                         ledger_.save(world_.bug() != Bug::forgets_clients_in_snapshot)};
  later(world_.between(2000, 30000), [this, image, loaded = loaded_] {
    // One of what was there before a snapshot was installed may hold what was lost since.
    if (disk_.full || loaded != loaded_) return;
    if (image.at.index <= disk_.written().snapshot.at.index) return;  // a later one was quicker
    disk_.save(image);
    execute(node_->snapshot_saved(now(), image.at.index));
  });
}

void Host::on(OpenSnapshot& effect) {
  world_.transfer_opened();
  const Position at{*node_->log().epoch_of(applied_), applied_};
  sending_[effect.transfer] = {at, ledger_.save(world_.bug() != Bug::forgets_clients_in_snapshot)};
  later(world_.between(1000, 60000), [this, at, transfer = effect.transfer] {
    const auto found = sending_.find(transfer);
    const std::uint64_t bytes = found == sending_.end() ? 1 : found->second.second.size();
    execute(world_.random().below(20) == 0 ? node_->snapshot_failed(now(), transfer)
                                           : node_->snapshot_opened(now(), transfer, at, bytes));
  });
}

void Host::on(CloseSnapshot& effect) {
  if (sending_.erase(effect.transfer) != 1) {
    throw Violation{"transfers end", "one that isn't open was closed"};
  }
}

void Host::on(StorePiece& effect) {
  Bytes& bytes = receiving_[effect.transfer];
  bytes.insert(bytes.end(), effect.bytes.begin(), effect.bytes.end());
}

void Host::on(InstallSnapshot& effect) {
  installing_ = effect.transfer;
  step(world_.between(1000, 20000), [this, effect] {
    installing_ = 0;
    const Bytes bytes = std::move(receiving_.at(effect.transfer));
    receiving_.erase(effect.transfer);
    if (!disk_.full) {
      ++loaded_;
      ledger_ = Ledger::load(bytes);
      applied_ = image_ = effect.at.index;
      disk_.install({effect.at, bytes});
      memory_ = disk_.written();
    }
    execute(node_->snapshot_installed(now(), effect.transfer, !disk_.full));
    return true;
  });
}

void Host::on(DiscardSnapshot& effect) {
  if (receiving_.erase(effect.transfer) != 1) {
    throw Violation{"transfers end", "one that isn't there was discarded"};
  }
}

void Host::on(Admitted&) { disk_.mark_whole(true); }

void Host::on(RoleChanged& effect) {
  static constexpr const char* kRoles[] = {"idle", "joiner", "backup", "primary"};
  world_.trace(text_of(node_->self()) + " is " + kRoles[static_cast<int>(effect.role)] +
               " in epoch " + std::to_string(effect.configuration.epoch) + ": " + effect.why);
}

}  // namespace convoy::server::replication::sim
