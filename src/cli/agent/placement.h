// Cores and threads of one rank among those on its host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace convoy::cli {

struct PlacementInput {
  std::vector<int> cores;  // usable on this host, siblings of one physical core side by side
  bool quota = false;      // fewer may be used than the affinity mask shows: no core is ours alone
  int local_rank = 0;
  int local_ranks = 1;
  std::string threads = {};      // what the user asks of this job, or empty
  std::string environment = {};  // OMP_NUM_THREADS as found, or empty
  bool bind = true;
};

struct Placement {
  std::string threads;     // for OMP_NUM_THREADS
  std::vector<int> cores;  // to bind to; empty: stay unbound
};

// Threads: what the user asked for, or said in the environment, or an even share of the cores.
// Bound to disjoint cores when these divide evenly among the ranks and hold the threads, and are
// nobody else's.
Placement place(const PlacementInput& input);

// Whether fewer than its affinity mask shows are usable for this process, of which so many are.
bool quota_limits(std::size_t usable);

// The cores ordered so that hardware threads of one physical core, and cores of one socket, are
// neighbors.
std::vector<int> by_topology(std::vector<int> cores);

}  // namespace convoy::cli
