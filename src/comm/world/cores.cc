#include "comm/world/cores.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "convoy/base/system.h"

namespace convoy::comm {
namespace {

std::vector<int> parse_cores(const std::string& text) {
  std::vector<int> cores;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    int first = 0;
    at = std::from_chars(at, end, first).ptr;
    int last = first;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (int core = first; core <= last; ++core) cores.push_back(core);
    if (at < end) ++at;  // the comma
  }
  return cores;
}

constexpr double kRoundingOfShares = 1e-6;  // 3 x 1/3 is 1

// Cores of a rank, where each that several ranks may run on counts in parts.
double exact_share(int rank, const std::vector<std::string>& hosts,
                   const std::vector<std::string>& cores) {
  const auto self = static_cast<std::size_t>(rank);
  std::map<int, int> ranks_on;  // by core of this host
  for (std::size_t other = 0; other < hosts.size(); ++other) {
    if (hosts[other] != hosts[self]) continue;
    for (const int core : parse_cores(cores[other])) ++ranks_on[core];
  }
  double share = 0;
  for (const int core : parse_cores(cores[self])) share += 1.0 / ranks_on[core];
  return share;
}

// The most tasks that one host has by Slurm's list, as "2(x3),1"; 0 if there is none.
int most_of_slurm(const std::string& list) {
  int most = 0;
  for (std::size_t at = 0; at < list.size(); at = std::min(list.find(',', at), list.size()) + 1) {
    most = std::max(most, std::atoi(list.c_str() + at));
  }
  return most;
}

}  // namespace

std::string format_cores(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(cores[first]);
    if (last > first) text += "-" + std::to_string(cores[last]);
    first = last + 1;
  }
  return text;
}

bool is_crowded(int rank, const std::vector<std::string>& hosts,
                const std::vector<std::string>& cores) {
  return exact_share(rank, hosts, cores) < 1 - kRoundingOfShares;
}

int share_of_cores(int rank, const std::vector<std::string>& hosts,
                   const std::vector<std::string>& cores) {
  return std::max(1, static_cast<int>(exact_share(rank, hosts, cores) + kRoundingOfShares));
}

void yield_when_crowded() {
  const int ranks = std::max(std::atoi(environment("OMPI_COMM_WORLD_LOCAL_SIZE", "0").c_str()),
                             most_of_slurm(environment("SLURM_STEP_TASKS_PER_NODE")));
  if (ranks > static_cast<int>(usable_cores().size())) {
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  }
}

}  // namespace convoy::comm
