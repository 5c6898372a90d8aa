// One schedule of the simulation: a shard of three nodes, its authority, clients, and what befalls
// them, all in virtual time and decided by a seed.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "convoy/base/random.h"
#include "server/replication/authority.h"
#include "tests/server/replication/checks.h"
#include "tests/server/replication/host.h"
#include "tests/server/replication/planted.h"

namespace convoy::server::replication::sim {

struct Schedule {
  std::uint64_t seed = 0;
  Bug bug = Bug::none;
  bool trace = false;  // print what happens
};

struct Outcome {
  std::string check;  // that failed; empty: none
  std::string what;
  std::size_t acknowledged = 0, excused = 0, faults = 0, transfers = 0;
  Epoch epochs = 0;
};

Outcome run(const Schedule& schedule);

class World {
 public:
  explicit World(const Schedule& schedule);
  Outcome run();

  // --- for hosts ---
  Time now() const { return now_; }
  void after(Time delay, std::function<void()> what);
  RandomStream& random() { return random_; }
  Time between(Time least, Time most) { return least + random_.below(most - least + 1); }
  void send(Message message);
  void reply(const Host& host, Token token, Index index);
  void reject(Token token, const Reject& reject);
  bool member(const Member& member) const { return stored_.has(member); }
  Checks& checks() { return checks_; }
  Bug bug() const { return schedule_.bug; }
  Durability durability() const { return durability_; }
  const Rules& rules() const { return *rules_; }
  const NodeOptions& node_options() const { return node_options_; }
  void transfer_opened() { ++outcome_.transfers; }
  void trace(const std::string& line) const;

 private:
  static constexpr std::size_t kNodes = 3;
  static constexpr std::size_t kClients = 3;

  struct Event {
    Time time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };
  struct Client {
    std::uint64_t sequence = 0;
    std::uint64_t attempt = 0;
    std::uint64_t target = 1;
    bool idle = true;
    std::size_t after_quiet = 0;
  };

  Host& host(std::uint64_t node) { return *hosts_[node - 1]; }
  void run_until(Time end);
  bool settled();
  bool transfer_is_open() const;
  void check_end();

  // The authority and its store.
  void start_authority();
  void authority_tick();
  void with_authority(const std::function<AuthorityEffects()>& what);
  void store(Time delay, std::function<ConfigurationStore::Answer()> what);
  void configured(const Configuration& next);

  // Clients (world.cc).
  void begin_update(std::uint64_t client);
  void attempt(std::uint64_t client);

  // Faults (faults.cc).
  void fault_later();
  void fault();
  void stop(std::uint64_t node, bool power);
  void pause(std::uint64_t node);
  void isolate(std::uint64_t node);
  void cut_link();
  void fill_disk(std::uint64_t node);
  void power_cut_of_all();
  void stop_authority();
  void strike(const Member& primary);
  void heal();
  void excuse_losses();
  void recall_losses();
  bool held(Index index, Epoch epoch);

  const Schedule schedule_;
  RandomStream random_;
  Durability durability_;
  std::unique_ptr<Rules> rules_;
  NodeOptions node_options_;
  AuthorityOptions authority_options_;
  Outcome outcome_;
  Checks checks_;

  Time now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::unique_ptr<Host>> hosts_;

  std::unique_ptr<Authority> authority_;
  std::uint64_t authority_life_ = 0;
  Time authority_paused_until_ = 0, authority_ahead_ = 0;
  Configuration stored_;
  Time store_down_until_ = 0;

  bool quiet_ = false;
  double loss_ = 0, doubling_ = 0, slow_ = 0;
  std::array<std::array<Time, kNodes + 1>, kNodes + 1> cut_until_{};  // 0: the authority

  std::array<Client, kClients + 1> clients_;
  std::map<Token, Update> tokens_;
  Token token_ = 0;
};

}  // namespace convoy::server::replication::sim
