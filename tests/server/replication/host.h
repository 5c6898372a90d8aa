// A process that runs a Node, as the simulation has it; a pattern for real ones.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "server/replication/node.h"
#include "tests/server/replication/ledger.h"
#include "tests/server/replication/planted.h"
#include "tests/server/replication/sim_disk.h"

namespace convoy::server::replication::sim {

class World;

class Host {
 public:
  Host(World& world, std::uint64_t node) : world_(world), number_(node) {}

  void start();
  void kill();
  void cut_power();
  void pause(Time until) { paused_until_ = until; }
  void jump_clock(Time by, bool forward);
  // Does what a process would do if it is alive and not paused then; when it is paused, later.
  void receive(const Message& message);
  void propose(Token token, const Command& command);

  bool alive() const { return node_ != nullptr; }
  const Node& node() const { return *node_; }
  const Ledger& ledger() const { return ledger_; }
  SimDisk& disk() { return disk_; }
  const SimDisk& disk() const { return disk_; }
  // Transfers that were begun and have not ended.
  std::size_t open_transfers() const { return sending_.size() + receiving_.size(); }
  Time now() const;

 private:
  void run(std::uint64_t life, const std::function<void()>& what);
  void later(Time delay, std::function<void()> what);
  void tick();
  void execute(Effects effects);
  void step(Time delay, std::function<bool()> what);
  void run_steps();
  void save_snapshot();

  void on(WriteLog& effect);
  void on(TruncateLog& effect);
  void on(SyncLog& effect);
  void on(CutLog& effect);
  void on(Send& effect);
  void on(SendEntries& effect);
  void on(SendPiece& effect);
  void on(Apply& effect);
  void on(Reply& effect);
  void on(Reject& effect);
  void on(OpenSnapshot& effect);
  void on(CloseSnapshot& effect);
  void on(StorePiece& effect);
  void on(InstallSnapshot& effect);
  void on(DiscardSnapshot& effect);
  void on(Admitted& effect);
  void on(RoleChanged& effect);

  World& world_;
  const std::uint64_t number_;
  SimDisk disk_;
  std::uint64_t life_ = 0;
  Time paused_until_ = 0;
  Time clock_ahead_ = 0;

  // Of this life.
  std::unique_ptr<Node> node_;
  Content memory_;  // the log, with what is on the way to the disk
  Ledger ledger_;
  Index applied_ = 0;
  std::uint64_t loaded_ = 0;  // how often a snapshot took the place of all
  Index image_ = 0;           // the last snapshot that was begun
  std::deque<std::pair<Time, std::function<bool()>>> steps_;
  bool stepping_ = false;
  std::uint64_t installing_ = 0;
  std::map<std::uint64_t, std::pair<Position, Bytes>> sending_;
  std::map<std::uint64_t, Bytes> receiving_;
};

}  // namespace convoy::server::replication::sim
