#include "server/coordinator/configuration_keeper.h"

#include <utility>

#include "convoy/base/error.h"
#include "server/replication/messages.h"

namespace convoy::server::coordinator {

using replication::Configuration;

namespace {
constexpr std::uint16_t kConfigurationVersion = 1;
}

std::string ConfigurationKeeper::key_of(std::uint32_t shard) {
  return "configuration/" + std::to_string(shard);
}

Bytes ConfigurationKeeper::encode(const Configuration& configuration) {
  Writer writer;
  writer.u16(kConfigurationVersion);
  replication::write(writer, configuration);
  return writer.take();
}

Configuration ConfigurationKeeper::decode(const Value& value) {
  try {
    Reader reader(value.bytes, "configuration of a shard in the coordinator's store");
    reader.version(kConfigurationVersion);
    const Configuration configuration = replication::read_configuration(reader);
    reader.end();
    return configuration;
  } catch (const UsageError& error) {
    throw Failure(error.what());
  }
}

ConfigurationKeeper::Answer ConfigurationKeeper::newest(std::uint32_t shard,
                                                        std::uint64_t& revision) {
  Answer answer;
  answer.newest.shard = shard;
  revision = 0;
  try {
    if (const auto value = store_.read(key_of(shard))) {
      answer.newest = decode(*value);
      revision = value->revision;
    }
    answer.reached = true;
  } catch (const Failure&) {  // asked again after a while
  }
  return answer;
}

void ConfigurationKeeper::read(std::uint32_t shard, Done done) {
  run_([this, shard, done = std::move(done)] {
    std::uint64_t revision = 0;
    done(newest(shard, revision));
  });
}

void ConfigurationKeeper::compare_and_set(const Configuration& next, Done done) {
  run_([this, next, done = std::move(done)] {
    std::uint64_t revision = 0;
    Answer answer = newest(next.shard, revision);
    if (answer.reached && answer.newest.epoch + 1 == next.epoch) {
      const Changed changed = store_.compare_and_set(term_, key_of(next.shard), revision,
                                                     encode(next), Survives::power);
      switch (changed.kind) {
        case Changed::Kind::done:
          answer.newest = next;
          break;
        case Changed::Kind::conflict:
          answer = newest(next.shard, revision);
          break;
        case Changed::Kind::fenced:
        case Changed::Kind::broken:
          ended_(changed);
          [[fallthrough]];
        case Changed::Kind::unreached:
          answer.reached = false;
          break;
      }
    }
    done(answer);
  });
}

}  // namespace convoy::server::coordinator
