// Who has which shard, and the channels there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/server/client.h"
#include "server/service/coordinator_calls.h"
#include "server/transport/channel.h"

namespace convoy::server::client {

// How channels get their connections: through gRPC, or what a test has. Throws UsageError.
using Connectors = std::function<std::unique_ptr<transport::Connector>(const std::string& address)>;

// What the coordinator says last, and what the servers themselves say: a primary may be found while
// the coordinator is away.
//
// Threads: any. Nothing waits for anybody else, but ask().
class Directory {
 public:
  // Throws UsageError.
  Directory(const ClientOptions& options, Connectors connectors);
  ~Directory();  // callbacks of calls that are under way have returned
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // --- the coordinator ---
  transport::Channel& coordinator() { return *coordinator_; }
  // Asks it until there is an answer, `done` or `failed`: so a request may reach it twice. Throws
  // UsageError where the coordinator serves no client like this one, Failure at the deadline, or
  // soon after `give_up` says so.
  using GiveUp = std::function<bool()>;  // none: never
  transport::Answer ask(std::string_view method, const transport::Message& request,
                        Clock::time_point deadline, const GiveUp& give_up = nullptr);
  // Asks it for the job's state, and waits. Throws as ask() does; UsageError for an answer of
  // another version.
  std::shared_ptr<const calls::JobState> fetch_state(Clock::time_point deadline,
                                                     const GiveUp& give_up = nullptr);
  // Asks in the background, unless that is being done or was just done.
  void refresh();
  std::shared_ptr<const calls::JobState> state() const;  // REQUIRES: fetch_state() has returned
  // Why nothing here can work any more: the coordinator has another job. Empty if it can.
  std::string problem() const;

  // --- servers ---
  struct Way {
    std::uint64_t server = 0;
    std::shared_ptr<transport::Channel> channel;  // null: where it is isn't known yet
  };
  // To whoever is primary, as far as is known. Throws UsageError.
  Way to(std::uint32_t shard);
  // The server says that it is not the primary; `hint`: who is, 0 if it doesn't know.
  void not_primary(std::uint32_t shard, std::uint64_t server, std::uint64_t hint);
  // The server doesn't answer: the next time another one is asked.
  void failed(std::uint32_t shard, std::uint64_t server) { not_primary(shard, server, 0); }
  // Ends all calls to servers with `closed`.
  void close_channels();

 private:
  struct Shard {
    std::uint64_t epoch = 0;
    std::uint64_t server = 0;  // to be asked
  };
  struct Server {
    std::string address;
    std::shared_ptr<transport::Channel> channel;
  };
  std::shared_ptr<transport::Channel> make_channel(const std::string& address,
                                                   const std::string& job) const;
  void update(calls::JobState state);

  const std::string address_, name_;
  const bool shared_memory_;
  const Connectors connectors_;

  mutable std::mutex mutex_;  // of all that follows
  std::shared_ptr<const calls::JobState> state_;
  std::vector<Shard> shards_;
  std::map<std::uint64_t, Server> servers_;
  std::vector<std::shared_ptr<transport::Channel>> retired_;  // to be ended without the lock
  std::string problem_;
  bool refreshing_ = false;
  Clock::time_point refreshed_;

  std::unique_ptr<transport::Channel> coordinator_;  // its callbacks use what stands above
};

}  // namespace convoy::server::client
