#include "tests/server/replication/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace convoy::server::replication::sim {
namespace {

constexpr Time kFaults = milliseconds(3000);    // how long things fail
constexpr Time kRecovery = milliseconds(6000);  // how long a shard may take to be well again
constexpr std::size_t kUpdatesAfterwards = 3;   // that every client must bring through

}  // namespace

World::World(const Schedule& schedule)
    : schedule_(schedule),
      random_(schedule.seed, 1),
      durability_(random_.below(2) == 0 ? Durability::replicated : Durability::synced),
      rules_(rules_with(schedule.bug)) {
  node_options_.durability = durability_;
  node_options_.report_interval = milliseconds(30);
  node_options_.heartbeat_interval = milliseconds(20);
  node_options_.peer_timeout = milliseconds(150);
  node_options_.retry_interval = milliseconds(50);
  node_options_.sync_interval = milliseconds(40);
  node_options_.message_bytes = 48;  // three commands
  node_options_.window_bytes = 160;
  node_options_.piece_bytes = 200;
  node_options_.piece_window_bytes = 500;
  node_options_.joint_lag = 2 + random_.below(8);
  authority_options_ = {milliseconds(200), milliseconds(90), milliseconds(50)};
  for (std::uint64_t node = 1; node <= kNodes; ++node) {
    hosts_.push_back(std::make_unique<Host>(*this, node));
  }
}

void World::after(Time delay, std::function<void()> what) {
  events_.push({now_ + delay, order_++, std::move(what)});
}

void World::trace(const std::string& line) const {
  if (schedule_.trace) std::printf("%9.3f ms  %s\n", static_cast<double>(now_) / 1e3, line.c_str());
}

Outcome World::run() {
  try {
    start_authority();
    for (auto& each : hosts_) {
      after(between(0, milliseconds(50)), [&host = *each] { host.start(); });
    }
    for (std::uint64_t client = 1; client <= kClients; ++client) begin_update(client);
    after(milliseconds(300), [this] { fault_later(); });
    run_until(kFaults);
    heal();
    const Time end = now_ + kRecovery;
    while (now_ < end && (!settled() || transfer_is_open())) run_until(now_ + milliseconds(50));
    check_end();
  } catch (const Violation& violation) {
    outcome_.check = violation.check;
    outcome_.what = violation.what;
  } catch (const std::exception& error) {
    outcome_.check = "no exception";
    outcome_.what = error.what();
  }
  outcome_.acknowledged = checks_.acknowledged();
  outcome_.excused = checks_.excused();
  outcome_.epochs = stored_.epoch;
  return outcome_;
}

Outcome run(const Schedule& schedule) { return World(schedule).run(); }

void World::run_until(Time end) {
  while (!events_.empty() && events_.top().time <= end) {
    const Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.time;
    event.what();
  }
  now_ = end;
}

// --- what must be so in the end ---

bool World::settled() {
  if (stored_.epoch == 0 || !stored_.backup) return false;
  for (const Member& member : {stored_.primary, stored_.backup}) {
    const Host& each = host(member.node);
    if (!each.alive() || each.node().self() != member || each.node().configuration() != stored_ ||
        each.node().applied() != checks_.last()) {
      return false;
    }
  }
  if (host(stored_.primary.node).node().role() != Role::primary) return false;
  return std::all_of(clients_.begin() + 1, clients_.end(), [](const Client& client) {
    return client.idle && client.after_quiet >= kUpdatesAfterwards;
  });
}

void World::check_end() {
  if (stored_.epoch != 0) {
    const Host& primary = host(stored_.primary.node);
    if (primary.alive()) checks_.complete(primary.ledger());
  }
  if (!settled()) {
    throw Violation{"progress", "after " + std::to_string(kRecovery / 1000) +
                                    " ms without faults the shard is not served by two"};
  }
  if (!(host(stored_.primary.node).ledger() == host(stored_.backup.node).ledger())) {
    throw Violation{"members equal", "primary and backup hold different states"};
  }
  if (transfer_is_open()) {
    throw Violation{"transfers end", "one is open though nobody waits for it"};
  }
}

bool World::transfer_is_open() const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [](const auto& each) { return each->open_transfers() != 0; });
}

// --- network ---

void World::send(Message message) {
  const std::uint64_t from = message.from.node, to = message.to.node;
  // As it travels: a message is what its bytes say.
  const auto bytes = std::make_shared<const Bytes>(encode(message));
  const int copies = 1 + (random_.uniform() < doubling_ ? 1 : 0);
  for (int copy = 0; copy < copies; ++copy) {
    if (random_.uniform() < loss_) continue;
    const Time delay = random_.uniform() < slow_ ? between(milliseconds(1), milliseconds(300))
                                                 : between(100, 1500);
    after(delay, [this, from, to, bytes] {
      if (now_ < cut_until_[from][to]) return;
      if (to != 0) {
        host(to).receive(decode(*bytes));
      } else {
        with_authority(
            [this, bytes] { return authority_->receive(now_ + authority_ahead_, decode(*bytes)); });
      }
    });
  }
}

// --- the authority and its store ---

void World::start_authority() {
  ++authority_life_;
  authority_ = std::make_unique<Authority>(now_ + authority_ahead_, authority_life_,
                                           authority_options_, *rules_);
  authority_tick();
}

void World::authority_tick() {
  after(milliseconds(10), [this, life = authority_life_] {
    if (life != authority_life_) return;
    with_authority([this] { return authority_->tick(now_ + authority_ahead_); });
    authority_tick();
  });
}

void World::with_authority(const std::function<AuthorityEffects()>& what) {
  if (!authority_) return;
  if (now_ < authority_paused_until_) {
    after(authority_paused_until_ - now_, [this, what, life = authority_life_] {
      if (life == authority_life_) with_authority(what);
    });
    return;
  }
  for (auto& effect : what()) {
    if (auto* message = std::get_if<Send>(&effect)) {
      send(std::move(message->message));
    } else if (const auto* set = std::get_if<SetStore>(&effect)) {
      store(between(100, 3000), [this, next = set->next]() -> ConfigurationStore::Answer {
        if (next.epoch == stored_.epoch + 1) configured(next);
        return {true, stored_};
      });
    } else {
      store(between(100, 3000), [this]() -> ConfigurationStore::Answer { return {true, stored_}; });
    }
  }
}

// One call of the store: it may be lost on the way there or, when it is carried out, on the way
// back.
void World::store(Time delay, std::function<ConfigurationStore::Answer()> what) {
  after(delay, [this, what = std::move(what), life = authority_life_] {
    ConfigurationStore::Answer answer;
    if (now_ >= store_down_until_) answer = what();
    if (random_.uniform() < loss_) return;
    after(between(100, 3000), [this, answer, life] {
      if (life != authority_life_) return;
      with_authority(
          [this, answer] { return authority_->stored(now_ + authority_ahead_, 0, answer); });
    });
  });
}

void World::configured(const Configuration& next) {
  // Who was promoted, or has evicted the other one, may have lost power since it was last heard.
  // Any other has been chosen for its disk, and must have what there was.
  const bool was_member = stored_.has(next.primary);
  stored_ = next;
  trace("epoch " + std::to_string(next.epoch) + ": " + text_of(next.primary) + ", backup " +
        text_of(next.backup));
  if (was_member) excuse_losses();
  recall_losses();
  strike(next.primary);
}

// --- clients ---

void World::begin_update(std::uint64_t number) {
  Client& client = clients_[number];
  client.idle = true;
  if (quiet_ && client.after_quiet >= kUpdatesAfterwards) return;
  after(between(1000, 20000), [this, number] {
    Client& each = clients_[number];
    each.idle = false;
    ++each.sequence;
    attempt(number);
  });
}

// Sends what the client has under way, and again after a while.
void World::attempt(std::uint64_t number) {
  Client& client = clients_[number];
  const Update update{number, client.sequence};
  tokens_[++token_] = update;
  const int copies = 1 + (random_.uniform() < doubling_ ? 1 : 0);
  for (int copy = 0; copy < copies; ++copy) {
    after(between(100, 1500), [this, to = client.target, token = token_, update] {
      if (random_.uniform() >= loss_) host(to).propose(token, command_of(update));
    });
  }
  after(milliseconds(60), [this, number, attempt = ++client.attempt] {
    Client& each = clients_[number];
    if (each.idle || each.attempt != attempt) return;
    each.target = 1 + random_.below(kNodes);
    this->attempt(number);
  });
}

void World::reject(Token token, const Reject& rejected) {
  after(between(100, 1500), [this, token, primary = rejected.primary] {
    Client& client = clients_[tokens_.at(token).first];
    if (primary) client.target = primary.node;
  });
}

void World::reply(const Host& from, Token token, Index index) {
  const Epoch epoch = from.node().log().epoch_of(index).value_or(0);
  // Wherever the shard goes from here, it takes this command along.
  for (const Member& member : {stored_.primary, stored_.backup}) {
    if (!member) continue;
    const SimDisk& disk = host(member.node).disk();
    const bool synced = durability_ == Durability::synced;
    const Content& content = synced ? disk.durable() : disk.written();
    if (content.whole && !content.holds(index, epoch)) {
      throw Violation{"on all members", "index " + std::to_string(index) +
                                            " is acknowledged, but not on node " +
                                            std::to_string(member.node)};
    }
  }
  after(between(100, 1500), [this, token] {
    if (random_.uniform() < loss_) return;
    const Update update = tokens_.at(token);
    checks_.acknowledged(update);
    Client& client = clients_[update.first];
    if (client.idle || client.sequence != update.second) return;
    if (quiet_) ++client.after_quiet;
    begin_update(update.first);
  });
}

}  // namespace convoy::server::replication::sim
