// The options with which a command of training starts its own ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "convoy/comm/world.h"

namespace convoy::cli {

// Seconds for the update under way and a checkpoint.
inline constexpr double kUsualGrace = 120;

struct RankOptions {
  int ranks = 0;
  std::string hosts, hostfile, bind, logs, timeout;
  // For commands that do something about SIGUSR1: how long they may go on when told to end.
  double grace_s = 0;
};

// Adds -n, --hosts and the like.
void add_rank_options(CLI::App& command, RankOptions& options);

// In a process that was started alone and wants ranks: replaces it by `convoy run`. Call it after
// what can be found wrong in one process. `partitions`: ranks that hold a model together.
void become_ranks(const RankOptions& options, int threads, std::int64_t partitions = 1);

// Joins the job (checking -n against it), calls `body`, leaves, and returns what it returned. A
// mistake that every rank finds is said once.
int in_world(const RankOptions& options, const std::string& command,
             const std::function<int(comm::World&)>& body);

}  // namespace convoy::cli
