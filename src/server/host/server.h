// A server process of a job: its nodes of shards, and their ways to clients, peers and the
// coordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/log.h"
#include "server/log/disk.h"
#include "server/transport/tls.h"

namespace convoy::server::host {

struct ServerSettings {
  std::string coordinator;   // "host:port"
  std::uint64_t number = 1;  // of this server in the job's plan
  std::string data;          // folder; node of shard S: data/shard-S
  std::string listen = "127.0.0.1:0";
  std::string advertise;  // where others reach it; empty: where it listens
  std::optional<transport::TlsFiles> tls;
  bool shared_memory = true;  // with those on this host
  // The largest message that it takes, unless a shard's values and state need more. More than a
  // batch to a backup has, which is 8 MiB.
  std::uint64_t largest_message = std::uint64_t{1} << 30;
  // A snapshot is taken when the log since the one before has more bytes than this, and than half
  // of the state.
  std::uint64_t snapshot_bytes = std::uint64_t{64} << 20;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  std::function<std::unique_ptr<Disk>(const std::string& folder)> open_disk = open_folder;
  // The process can't go on: nobody knows what is on its disk, or the coordinator has another job.
  // Called once or more, from any thread; must not call the server.
  std::function<void(const std::string& why)> fatal;
  // Asked now and then while the coordinator is waited for: whether to give up.
  std::function<bool()> give_up = [] { return false; };
  // What leases and waits of shards are measured by; tests have another one.
  std::function<Clock::time_point()> time = Clock::now;
  // How often it asks the coordinator for what is new.
  std::chrono::milliseconds ask_again = std::chrono::seconds(5);
  convoy::Log log;
};

class ServerCore;

// Threads: any; close() and the destructor by one.
class Server {
 public:
  // Waits for the coordinator, however long that takes; opens the folders of this server's shards
  // and serves. Throws UsageError for a number that the plan doesn't have, an address that is
  // taken, another job's folder or a coordinator that refuses it; Failure for a folder that is in
  // use, or when it was to give up.
  explicit Server(ServerSettings settings);
  ~Server();  // as if the process had been killed
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Ends in order: folders say that nothing is missing.
  void close();

  std::string address() const;  // where it listens, with the port
  std::string job() const;      // its id
  std::vector<std::uint32_t> shards() const;

 private:
  std::unique_ptr<ServerCore> core_;
};

}  // namespace convoy::server::host
