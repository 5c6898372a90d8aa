// Decides who serves each shard.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "server/replication/configuration_store.h"
#include "server/replication/effects.h"
#include "server/replication/messages.h"
#include "server/replication/rules.h"
#include "server/replication/types.h"

namespace convoy::server::replication {

struct AuthorityOptions {
  Time lease = milliseconds(2000);          // a primary that isn't heard for so long is replaced
  Time fresh = milliseconds(700);           // and by a node that was heard within this time
  Time retry_interval = milliseconds(500);  // of the store
};

struct ReadStore {
  std::uint32_t shard = 0;
};
struct SetStore {
  Configuration next;
};
using AuthorityEffects = std::vector<std::variant<Send, ReadStore, SetStore>>;

// Driven by events, like Node. It has no state that must not be lost: everything that counts is in
// the ConfigurationStore, which a host calls as told, giving each answer to stored(). So there may
// be several at once, and a new one at any time; it waits for a lease before it calls anybody dead.
class Authority {
 public:
  // REQUIRES: rules outlive it.
  // `life` is never the same twice, for no authority of this shard.
  Authority(Time now, std::uint64_t life, const AuthorityOptions& options, const Rules& rules)
      : life_(life), options_(options), rules_(rules), clock_(now), patient_until_(options.lease) {}

  AuthorityEffects tick(Time now);
  AuthorityEffects receive(Time now, const Message& message);
  AuthorityEffects stored(Time now, std::uint32_t shard, const ConfigurationStore::Answer& answer);
  // An operator's word for the next change of this shard: see Rules::successor.
  AuthorityEffects accept_loss(Time now, std::uint32_t shard);

  // The newest configuration that is known; epoch 0 if none.
  Configuration configuration(std::uint32_t shard) const;
  // Whom the authority knows to be nodes of a shard, and how they are.
  std::vector<Standing> standings(std::uint32_t shard) const;

 private:
  struct Known {
    Member member;
    Report report;
    Time heard = 0;  // when what it answered was sent
  };
  struct Shard {
    Configuration configuration;
    bool read = false;     // otherwise the store may have a newer one
    bool pending = false;  // the store was asked
    Time asked = 0;
    bool accept_loss = false;
    std::map<std::uint64_t, Known> nodes;
  };

  AuthorityEffects done() { return std::exchange(effects_, {}); }
  void at(Time now);
  Shard& shard(std::uint32_t number);
  void send(const Member& to, const Shard& shard);
  void read(std::uint32_t number, Shard& shard);
  void set(Shard& shard, const Configuration& next);
  void heard(Shard& shard, const Message& message, const Report& report);
  void asked(Shard& shard, const Member& from, const Change& change);
  bool fresh(const Stamp& echo, Time within) const;
  void consider(Shard& shard);
  std::optional<Configuration> first(const Shard& shard) const;
  std::vector<Standing> standings(const Shard& shard) const;

  const std::uint64_t life_;
  const AuthorityOptions options_;
  const Rules& rules_;
  AuthorityEffects effects_;
  Time clock_;
  Time now_ = 0;  // since its start, as in Node
  Time patient_until_;
  std::map<std::uint32_t, Shard> shards_;
};

}  // namespace convoy::server::replication
