// A job within this process: shards that are as exact as real ones, servers that fail as a test
// says, and a coordinator of few words.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "server/client/core.h"
#include "server/host/batch_desk.h"
#include "tests/server/transport/local_link.h"

namespace convoy::server::client::test {

using namespace std::chrono_literals;  // NOLINT

// What becomes of one request to a shard.
enum class Fault {
  none,
  lost_before,     // the connection breaks, and nothing is done
  lost_after,      // it is done, and the connection breaks
  twice,           // it arrives twice; the second answer arrives
  unknown_before,  // "unknown", and nothing is done
  unknown_after,   // "unknown", and it is done
  busy,
  refused,  // the shard says no
  failed,   // the server's own error
  silence,  // nobody ever answers
};

class Cluster {
 public:
  explicit Cluster(JobPlan plan);
  ~Cluster();

  Connectors connectors();
  ClientOptions options(const std::string& name);
  std::unique_ptr<Core> client(const std::string& name);  // with connectors()
  std::unique_ptr<Core> client(ClientOptions options);
  // The same behind other listeners: what a server and the coordinator do.
  transport::ServerSettings server_settings(std::uint64_t server);
  transport::ServerSettings coordinator_settings();
  void set_address(std::uint64_t server, const std::string& address);

  // --- faults ---
  // Asked for each request to a shard; `count` is that of its method.
  std::function<Fault(std::uint64_t server, std::uint32_t shard, const std::string& method)> fault;
  void set_up(std::uint64_t server, bool up);
  void set_coordinator_up(bool up);
  void forget(std::uint64_t client);  // its lease is over: all shards are told that it has left
  // Another primary; told: the coordinator knows, and so do the servers.
  void move(std::uint32_t shard, std::uint64_t server, bool told = true);
  void end(const std::string& why);

  // --- what there is ---
  ShardState& shard(std::uint32_t shard) { return *shards_[shard].state; }
  // As if primary and backup had lost the memory of groups.
  void forget_groups(std::uint32_t shard);
  std::vector<float> values(const Layout& layout, std::uint32_t vector, std::uint32_t array = 0);
  std::uint64_t requests(const std::string& method) const;
  std::set<std::uint64_t> left() const;
  ReplicaReport reported() const;
  calls::JobState job() const;
  std::vector<calls::LeaseRequest> leases() const;
  // Of each, the steps that had been reported before it.
  std::vector<std::uint64_t> steps_before_leases() const;
  // Hears them, but its answers don't come; the other: of those alone that report something.
  std::atomic<bool> deaf_to_beats = false;
  std::atomic<bool> refuse_cuts = false;
  std::atomic<bool> deaf_to_reports = false;
  std::function<calls::LeaseAnswer(const calls::LeaseRequest&)> on_lease;
  std::function<void(std::uint32_t shard, calls::ShardReport&)> on_report;

 private:
  struct Shard {
    std::mutex mutex;     // of what doesn't belong to the state
    std::mutex applying;  // who fetches doesn't wait for this
    std::unique_ptr<ShardState> state;
    std::unique_ptr<host::BatchDesk> desk;
    std::uint64_t primary = 0;
    bool hint = true;
  };
  struct Known {  // client
    std::uint64_t beat = 0;
    bool lost = false;
  };

  void on_shard(std::uint64_t server, transport::Request request, transport::Reply reply);
  calls::Answered carry_out(Shard& shard, const std::string& method,
                            const transport::Message& request);
  calls::Answered fetch(Shard& shard, const calls::FetchRequest& request);
  std::optional<calls::Answered> carry_out_batch(Shard& shard, const std::string& method,
                                                 const transport::Message& request);
  transport::Message on_coordinator(const std::string& method, const transport::Message& request);
  server::Cut make_cut();
  transport::Message give(Shard& shard, std::span<const std::byte> command);

  mutable std::mutex mutex_;  // of what follows
  calls::JobState job_;
  std::map<std::uint64_t, Known> clients_;
  std::set<std::uint64_t> left_;
  std::map<std::string, std::uint64_t> requests_;
  ReplicaReport reported_;
  std::vector<calls::LeaseRequest> leases_;
  std::vector<std::uint64_t> steps_before_leases_;
  std::vector<transport::Reply> unanswered_;
  std::uint64_t last_cut_ = 0;

  std::vector<Shard> shards_;
  std::map<std::uint64_t, std::unique_ptr<transport::test::LocalServer>> servers_;
  std::unique_ptr<transport::test::LocalServer> coordinator_;
};

inline JobPlan plan_of(std::uint32_t shards, std::uint32_t servers = 2) {
  JobPlan plan;
  plan.name = "test";
  plan.shards = shards;
  plan.servers = servers;
  plan.backups = servers > 1;
  plan.client_lease_ms = 300;
  return plan;
}
// A staleness bound of 0, two replicas.
inline JobPlan rounds(std::uint32_t shards) {
  JobPlan plan = plan_of(shards);
  plan.staleness_bound = 0;
  plan.replicas = 2;
  return plan;
}

// Vectors w0, w1, ... with plain SGD of rate 1.
inline JobDescription description_of(const std::vector<std::uint64_t>& sizes,
                                     const std::optional<optim::Rule>& rule = optim::Sgd{.lr = 1}) {
  JobDescription description;
  description.model = "test";
  for (const std::uint64_t size : sizes) {
    description.vectors.push_back({"w" + std::to_string(description.vectors.size()), size, rule});
  }
  description.epoch_samples = 1000;
  description.data = "data";
  return description;
}

using Values = std::vector<std::vector<float>>;

inline Values values_of(const JobDescription& description,
                        const std::function<float(std::size_t vector, std::size_t i)>& value) {
  Values values;
  for (std::size_t v = 0; v < description.vectors.size(); ++v) {
    values.emplace_back(description.vectors[v].elements);
    for (std::size_t i = 0; i < values[v].size(); ++i) values[v][i] = value(v, i);
  }
  return values;
}

inline std::vector<ReadView> read(const Values& values) {
  std::vector<ReadView> views;
  for (std::uint32_t v = 0; v < values.size(); ++v) views.push_back({v, values[v]});
  return views;
}

inline std::vector<WriteView> write(Values& values) {
  std::vector<WriteView> views;
  for (std::uint32_t v = 0; v < values.size(); ++v) views.push_back({v, values[v]});
  return views;
}

// Describes and initializes.
inline void begin(Cluster& cluster, const JobDescription& description, const Values& values) {
  auto evaluator = cluster.client("evaluator");
  ASSERT_FALSE(evaluator->describe(description));
  evaluator->initialize(read(values), {}, 0);
  ASSERT_TRUE(cluster.job().initialized);
}

}  // namespace convoy::server::client::test
