// The options with which a command of training starts its own ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
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

// What this rank has to say of an error that has ended its part, on standard error; empty: another
// rank says it. What all ranks meet is said by the first of them, and what one meets by that one,
// which then names itself. Whoever says it tells the others then (World::give_up), so that none
// waits for this rank. One that has no word of others asks for up to ten seconds whether they wait
// for it.
std::string last_words(const comm::World& world, const std::exception& error);

// Joins the job (checking -n against it), calls `body`, leaves, and returns what it returned. What
// it throws ends the process, and is said once by all ranks together.
int in_world(const RankOptions& options, const std::string& command,
             const std::function<int(comm::World&)>& body);

}  // namespace convoy::cli
