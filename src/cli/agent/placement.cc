#include "cli/agent/placement.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

namespace convoy::cli {
namespace {

int topology_value(int core, const char* name) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/" + name);
  int value = 0;
  return file >> value ? value : 0;
}

}  // namespace

Placement place(const PlacementInput& input) {
  const int cores = static_cast<int>(input.cores.size());
  const int ranks = std::max(1, input.local_ranks);
  const int share = std::max(1, cores / ranks);
  Placement placement;
  placement.threads = !input.threads.empty()       ? input.threads
                      : !input.environment.empty() ? input.environment
                                                   : std::to_string(share);
  // Nested settings ("4,2") count with their first level.
  const int threads = std::atoi(placement.threads.c_str());
  const bool fits = input.bind && !input.quota && cores % ranks == 0 && threads <= share &&
                    input.local_rank >= 0 && input.local_rank < ranks;
  if (fits) {
    const auto first = input.cores.begin() + input.local_rank * share;
    placement.cores.assign(first, first + share);
  }
  return placement;
}

bool quota_limits(std::size_t usable) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 &&
         usable < static_cast<std::size_t>(CPU_COUNT(&mask));
}

std::vector<int> by_topology(std::vector<int> cores) {
  std::map<int, std::tuple<int, int, int>> place;
  for (int core : cores) {
    place[core] = {topology_value(core, "physical_package_id"), topology_value(core, "core_id"),
                   core};
  }
  std::sort(cores.begin(), cores.end(), [&](int a, int b) { return place[a] < place[b]; });
  return cores;
}

}  // namespace convoy::cli
