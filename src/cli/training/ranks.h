// The options with which a command of training starts its own ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "convoy/comm/world.h"

namespace convoy::cli {

struct RankOptions {
  int ranks = 0;
  std::string hosts, hostfile, bind, logs, timeout;
  double grace_s = 120;
};

// Adds -n, --hosts and the like.
void add_rank_options(CLI::App& command, RankOptions& options);

// In a process that was started alone and wants ranks: replaces it by `convoy run`. Call it after
// what can be found wrong in one process.
void become_ranks(const RankOptions& options, int threads);

// Joins the job; checks -n against it.
comm::World join_world(const RankOptions& options);

}  // namespace convoy::cli
