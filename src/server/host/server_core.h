// What a server consists of.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "convoy/base/clock.h"
#include "server/host/lane.h"
#include "server/host/server.h"
#include "server/host/shard_host.h"
#include "server/service/coordinator_calls.h"
#include "server/transport/channel.h"
#include "server/transport/listener.h"
#include "server/transport/message_memory.h"

namespace convoy::server::host {

// Of each client: it may have as much under way as the largest message takes.
transport::Limits limits_of(std::uint64_t largest_message);

class ServerCore {
 public:
  explicit ServerCore(ServerSettings settings);
  ~ServerCore();

  void close();
  std::string address() const { return address_; }
  const std::string& job() const { return job_; }
  std::vector<std::uint32_t> shards() const;

 private:
  struct Peer {
    std::string address;
    std::unique_ptr<transport::Channel> channel;
  };

  // --- clients (server_routes.cc) ---
  void handle(transport::Request request, transport::Reply reply);
  ShardHost& host_of(std::uint32_t shard) const;
  std::optional<calls::Answered> too_large(std::uint64_t command);
  void replicate(const transport::Request& request);
  bool handle_batch(const transport::Request& request, transport::Reply& reply);

  // --- the coordinator and peers (server_links.cc) ---
  std::unique_ptr<transport::Channel> channel_to(const std::string& address,
                                                 const std::string& job) const;
  calls::JobState ask_for_job();
  void keep();
  void register_here();
  void registered(const transport::Answer& answer);
  void learn(const calls::JobState& state);
  void call_again();
  void to_authority(replication::Message message);
  void call_authority();
  void authority_answered(const transport::Answer& answer);
  void to_node(std::uint64_t node, std::vector<replication::Message> messages,
               std::function<void(bool)> arrived);
  void call_node(std::uint64_t node, std::string_view method, const transport::Message& request,
                 std::function<void(bool)> arrived);

  // --- its life (server.cc) ---
  void open_hosts(const JobPlan& plan);
  void listen();
  void end(bool in_order);
  void fatal(const std::string& why) const;

  const ServerSettings settings_;
  const std::uint64_t incarnation_;
  std::string job_;
  std::string address_, advertised_;
  std::map<std::uint32_t, std::unique_ptr<ShardHost>> hosts_;  // stays as it is while it serves
  std::unique_ptr<transport::Channel> coordinator_;
  std::shared_ptr<transport::MessageMemory> whole_;  // of large messages
  std::unique_ptr<transport::Listener> listener_;
  Lane later_;  // what must not be done within a call

  std::mutex mutex_;  // of all that follows; hosts call with their own locks held
  std::condition_variable changed_;
  bool ending_ = false;
  bool registering_ = false;
  bool failing_ = false;  // the coordinator didn't answer the last time
  Clock::time_point register_at_{};
  std::uint64_t authority_ = 0;  // which life of it was heard last
  bool asking_authority_ = false;
  std::vector<replication::Message> for_authority_;
  std::map<std::uint64_t, Peer> peers_;
  bool ended_ = false;
  std::uint64_t largest_message_;
  bool largest_is_known_ = false;  // it stays as it is

  std::thread keeper_;
};

}  // namespace convoy::server::host
