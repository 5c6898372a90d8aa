// Configurations of shards in a StateStore.
#pragma once

#include <functional>
#include <string>

#include "server/coordinator/state_store.h"
#include "server/replication/configuration_store.h"

namespace convoy::server::coordinator {

// Under "configuration/<shard>", surviving a power cut. Calls of the store may wait, so they are
// made by whoever `run` gives them to; the answers come from there.
class ConfigurationKeeper final : public replication::ConfigurationStore {
 public:
  using Run = std::function<void(std::function<void()>)>;
  // Told once what can't be passed over: a later term has begun, or the store is broken.
  using Ended = std::function<void(const Changed&)>;

  // REQUIRES: the store outlives what `run` still has to do.
  ConfigurationKeeper(StateStore& store, std::uint64_t term, Run run, Ended ended)
      : store_(store), term_(term), run_(std::move(run)), ended_(std::move(ended)) {}

  void read(std::uint32_t shard, Done done) override;
  void compare_and_set(const replication::Configuration& next, Done done) override;

  static std::string key_of(std::uint32_t shard);
  static Bytes encode(const replication::Configuration& configuration);
  // Throws Failure: it is not what was stored.
  static replication::Configuration decode(const Value& value);

 private:
  Answer newest(std::uint32_t shard, std::uint64_t& revision);

  StateStore& store_;
  const std::uint64_t term_;
  const Run run_;
  const Ended ended_;
};

}  // namespace convoy::server::coordinator
