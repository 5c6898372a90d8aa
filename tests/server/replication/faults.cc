// What befalls the nodes of a schedule.
#include <algorithm>
#include <string>

#include "tests/server/replication/world.h"

namespace convoy::server::replication::sim {

// Every schedule has a temper of its own, so that some are nearly calm and some a storm.
void World::fault_later() {
  if (quiet_) return;
  const std::uint64_t temper = 1 + schedule_.seed % 4;
  after(between(milliseconds(10), milliseconds(120 * temper)), [this] {
    if (quiet_) return;
    fault();
    fault_later();
  });
}

void World::fault() {
  ++outcome_.faults;
  const std::uint64_t node = 1 + random_.below(kNodes);
  switch (random_.below(14)) {
    case 0:
    case 1:
      return stop(node, false);
    case 2:
      return stop(node, true);
    case 3:
      return pause(node);
    case 4:
      return isolate(node);
    case 5:
    case 6:
      return cut_link();
    case 7: {
      const bool forward = random_.below(2) == 0;
      const Time by = between(milliseconds(1), milliseconds(3600 * 1000));
      trace("clock of node " + std::to_string(node) + " jumps");
      return host(node).jump_clock(by, forward);
    }
    case 8:
      return fill_disk(node);
    case 9:
      return stop_authority();
    case 10:
      trace("the store is away");
      store_down_until_ = now_ + between(milliseconds(20), milliseconds(400));
      return;
    case 11:
      return power_cut_of_all();
    case 12:
      authority_paused_until_ = now_ + between(milliseconds(10), milliseconds(500));
      if (random_.below(2) == 0) authority_ahead_ += between(0, milliseconds(100000));
      trace("the authority is paused");
      return;
    default:
      loss_ = random_.below(3) == 0 ? 0.0 : random_.uniform() * 0.3;
      doubling_ = random_.uniform() * 0.3;
      slow_ = random_.below(3) == 0 ? 0.0 : random_.uniform() * 0.2;
      trace("the network loses " + std::to_string(loss_));
      return;
  }
}

void World::stop(std::uint64_t node, bool power) {
  trace((power ? "power cut of node " : "kill of node ") + std::to_string(node));
  if (power) {
    host(node).cut_power();
    excuse_losses();
  } else {
    host(node).kill();
  }
  after(between(milliseconds(5), milliseconds(500)), [this, node] { host(node).start(); });
}

void World::power_cut_of_all() {
  for (std::uint64_t node = 1; node <= kNodes; ++node) host(node).cut_power();
  trace("power cut of all");
  excuse_losses();
  for (std::uint64_t node = 1; node <= kNodes; ++node) {
    after(between(milliseconds(5), milliseconds(300)), [this, node] { host(node).start(); });
  }
}

void World::pause(std::uint64_t node) {
  trace("pause of node " + std::to_string(node));
  host(node).pause(now_ + between(milliseconds(10), milliseconds(600)));
}

void World::isolate(std::uint64_t node) {
  trace("node " + std::to_string(node) + " is cut off");
  const Time until = now_ + between(milliseconds(20), milliseconds(600));
  for (std::uint64_t other = 0; other <= kNodes; ++other) {
    cut_until_[node][other] = cut_until_[other][node] = until;
  }
}

void World::cut_link() {
  const std::uint64_t one = random_.below(kNodes + 1), other = random_.below(kNodes + 1);
  const Time until = now_ + between(milliseconds(20), milliseconds(600));
  cut_until_[one][other] = until;
  if (random_.below(2) == 0) cut_until_[other][one] = until;
  trace("no way from " + std::to_string(one) + " to " + std::to_string(other));
}

void World::fill_disk(std::uint64_t node) {
  trace("disk of node " + std::to_string(node) + " is full");
  host(node).disk().full = true;
  after(between(milliseconds(20), milliseconds(500)),
        [this, node] { host(node).disk().full = false; });
}

void World::stop_authority() {
  trace("the authority is killed");
  ++authority_life_;
  authority_.reset();
  after(between(milliseconds(1), milliseconds(300)), [this] {
    if (!authority_) start_authority();
  });
}

// The moments around a change are those that count, so they get more than their share.
void World::strike(const Member& primary) {
  if (quiet_ || random_.below(4) != 0) return;
  const std::uint64_t node = random_.below(3) != 0 ? primary.node : 1 + random_.below(kNodes);
  after(between(0, milliseconds(12)), [this, node] {
    if (quiet_) return;
    ++outcome_.faults;
    switch (random_.below(4)) {
      case 0:
        return pause(node);
      case 1:
        return isolate(node);
      default:
        return stop(node, random_.below(4) == 0);
    }
  });
}

void World::heal() {
  trace("all is well from here on");
  quiet_ = true;
  loss_ = doubling_ = slow_ = 0;
  store_down_until_ = authority_paused_until_ = 0;
  for (auto& row : cut_until_) row.fill(0);
  for (auto& each : hosts_) {
    each->pause(0);
    each->disk().full = false;
  }
  // Some were told to start later, and do; here is a last call.
  after(milliseconds(600), [this] {
    for (auto& each : hosts_) each->start();
    if (!authority_) start_authority();
  });
  // With synced logs nothing may need an operator.
  if (durability_ == Durability::replicated) {
    after(milliseconds(2500), [this] {
      with_authority([this] { return authority_->accept_loss(now_ + authority_ahead_, 0); });
    });
  }
}

// Durability::replicated survives the loss of one host. What no member holds any more after a power
// cut may be lost; whether that is so is read from the disks, not asked of the nodes.
void World::excuse_losses() {
  if (durability_ != Durability::replicated || stored_.epoch == 0) return;
  Index index = checks_.last();
  while (index > 0 && !held(index, checks_.epoch_of(index))) --index;
  checks_.lost_after(index);
}

// A joiner that was made a member in that moment may have brought some of it along.
void World::recall_losses() {
  for (bool found = true; found;) {
    found = false;
    for (const Epoch epoch : checks_.lost_next()) {
      if (found || !held(checks_.last() + 1, epoch)) continue;
      checks_.found_next(epoch);
      found = true;
    }
  }
}

bool World::held(Index index, Epoch epoch) {
  for (const Member& member : {stored_.primary, stored_.backup}) {
    if (!member || !host(member.node).disk().written().holds(index, epoch)) continue;
    // What a process has on the way to its disk (a truncation) counts as done.
    if (!host(member.node).alive()) return true;
    const LogShape& log = host(member.node).node().log();
    if (index <= log.base().index || log.epoch_of(index) == epoch) return true;
  }
  return false;
}

}  // namespace convoy::server::replication::sim
