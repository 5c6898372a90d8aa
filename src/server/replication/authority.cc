#include "server/replication/authority.h"

#include <algorithm>

namespace convoy::server::replication {

void Authority::at(Time now) {
  const Time passed = now > clock_ ? now - clock_ : 0;
  clock_ = now;
  now_ += passed;
  // It was paused, or the clock jumped: nobody could be heard meanwhile.
  if (passed > options_.lease / 2) patient_until_ = now_ + options_.lease;
}

Authority::Shard& Authority::shard(std::uint32_t number) {
  const auto [found, is_new] = shards_.try_emplace(number);
  if (is_new) {
    found->second.configuration.shard = number;
    read(number, found->second);
  }
  return found->second;
}

void Authority::send(const Member& to, const Shard& shard) {
  effects_.emplace_back(
      Send{{shard.configuration.shard, {}, to, Newest{{life_, now_}, shard.configuration}}});
}

void Authority::read(std::uint32_t number, Shard& shard) {
  shard.pending = true;
  shard.asked = now_;
  effects_.emplace_back(ReadStore{number});
}

void Authority::set(Shard& shard, const Configuration& next) {
  shard.pending = true;
  shard.asked = now_;
  effects_.emplace_back(SetStore{next});
}

AuthorityEffects Authority::tick(Time now) {
  at(now);
  for (auto& [number, shard] : shards_) {
    const bool due = now_ >= shard.asked + options_.retry_interval;
    // After this time nobody knows what became of a change, so it is looked up.
    if (due && (shard.pending || !shard.read)) read(number, shard);
    consider(shard);
  }
  return done();
}

AuthorityEffects Authority::receive(Time now, const Message& message) {
  at(now);
  Shard& known = shard(message.shard);
  if (const auto* report = std::get_if<Report>(&message.body)) {
    heard(known, message, *report);
  } else if (const auto* change = std::get_if<Change>(&message.body)) {
    asked(known, message.from, *change);
  }
  return done();
}

bool Authority::fresh(const Stamp& echo, Time within) const {
  return echo.authority == life_ && echo.time <= now_ && now_ <= echo.time + within;
}

void Authority::heard(Shard& shard, const Message& message, const Report& report) {
  if (!message.from) return;
  // What was delayed, from an earlier life perhaps, says nothing of now.
  if (fresh(report.echo, options_.lease)) {
    Known& known = shard.nodes[message.from.node];
    if (report.echo.time >= known.heard) known = {message.from, report, report.echo.time};
  }
  // Someone knows of more than this authority, which another one has made.
  if (report.epoch > shard.configuration.epoch && !shard.pending) {
    read(shard.configuration.shard, shard);
  }
  send(message.from, shard);
  consider(shard);
}

// What a primary may ask for: to go on alone, or with a node that it has brought up to date.
void Authority::asked(Shard& shard, const Member& from, const Change& change) {
  const Configuration& current = shard.configuration;
  const Configuration& next = change.next;
  if (!shard.read || shard.pending) return;  // it asks again
  const bool in_order = next.shard == current.shard && next.epoch == current.epoch + 1;
  if (fresh(change.echo, options_.lease) && in_order && from == current.primary &&
      next.primary == from &&
      (!next.backup || (!current.backup && next.backup.node != from.node))) {
    set(shard, next);
  } else {
    send(from, shard);
  }
}

AuthorityEffects Authority::stored(Time now, std::uint32_t number,
                                   const ConfigurationStore::Answer& answer) {
  at(now);
  Shard& known = shard(number);
  known.pending = false;
  known.read = answer.reached;
  if (answer.reached && answer.newest.epoch > known.configuration.epoch) {
    known.configuration = answer.newest;
    known.accept_loss = false;
    for (const auto& [node, each] : known.nodes) send(each.member, known);
  }
  consider(known);
  return done();
}

AuthorityEffects Authority::accept_loss(Time now, std::uint32_t number) {
  at(now);
  Shard& known = shard(number);
  known.accept_loss = true;
  consider(known);
  return done();
}

void Authority::consider(Shard& shard) {
  if (!shard.read || shard.pending) return;
  std::optional<Configuration> next;
  if (shard.configuration.epoch == 0) {
    next = first(shard);
  } else if (now_ >= patient_until_) {
    next = rules_.successor(shard.configuration, standings(shard), shard.accept_loss);
  }
  if (next) set(shard, *next);
}

// A shard that was never served begins with an empty node, if none has anything: otherwise the
// store has been lost, and only an operator can say which of them counts.
std::optional<Configuration> Authority::first(const Shard& shard) const {
  if (now_ + options_.lease < patient_until_ + options_.fresh) return std::nullopt;
  for (const auto& [node, known] : shard.nodes) {
    if (known.report.position.index != 0 || known.report.epoch != 0) return std::nullopt;
  }
  for (const auto& [node, known] : shard.nodes) {
    if (known.report.able && now_ <= known.heard + options_.fresh) {
      return Configuration{shard.configuration.shard, 1, known.member, {}};
    }
  }
  return std::nullopt;
}

std::vector<Standing> Authority::standings(const Shard& shard) const {
  std::vector<Standing> standings;
  for (const auto& [node, known] : shard.nodes) {
    standings.push_back({known.member, now_ <= known.heard + options_.lease,
                         now_ <= known.heard + options_.fresh, known.report.able,
                         known.report.position, known.report.whole});
  }
  return standings;
}

Configuration Authority::configuration(std::uint32_t number) const {
  const auto found = shards_.find(number);
  return found == shards_.end() ? Configuration{number, 0, {}, {}} : found->second.configuration;
}

std::vector<Standing> Authority::standings(std::uint32_t number) const {
  const auto found = shards_.find(number);
  return found == shards_.end() ? std::vector<Standing>{} : standings(found->second);
}

}  // namespace convoy::server::replication
