#include "train/planning/processors.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/cpu_quota.h"
#include "convoy/base/system.h"

namespace convoy::train {
namespace {

// The same in all containers and network namespaces of a machine.
std::string machine_name() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name.empty() ? host_name() : name;
}

std::string text_of(const RankCores& rank) {
  std::ostringstream text;
  text << rank.machine << ' ' << rank.threads << ' ' << rank.quota << ' ' << rank.period_s;
  for (const int core : rank.cores) text << ' ' << core;
  return text.str();
}

RankCores parse(const std::string& text, const std::string& host) {
  RankCores rank;
  rank.host = host;
  std::istringstream words(text);
  words >> rank.machine >> rank.threads >> rank.quota >> rank.period_s;
  for (int core = 0; words >> core;) rank.cores.push_back(core);
  return rank;
}

}  // namespace

std::vector<plan::Processor> processors_of(std::span<const RankCores> ranks) {
  std::map<std::string, double> threads_of_host;
  for (const RankCores& rank : ranks) threads_of_host[rank.host] += rank.threads;
  // What its quota leaves to a rank, and what all ask of their machine.
  std::vector<plan::Processor> processors;
  std::map<std::string, double> asked;
  std::map<std::string, std::set<int>> cores;
  for (const RankCores& rank : ranks) {
    const double threads = threads_of_host[rank.host];
    const bool limited = rank.quota > 0 && rank.quota < threads;
    processors.push_back({limited ? rank.quota / threads : 1, limited ? rank.period_s : 0});
    asked[rank.machine] += processors.back().share * rank.threads;
    cores[rank.machine].insert(rank.cores.begin(), rank.cores.end());
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto there = static_cast<double>(cores[ranks[i].machine].size());
    processors[i].share *= std::min(1.0, there / asked[ranks[i].machine]);
  }
  return processors;
}

plan::Processor measure_processor(const comm::World& world) {
  const CpuLimit quota = cgroup_cpu_limit();
  const std::string own = text_of(
      {machine_name(), "", at::get_num_threads(), quota.cpus, quota.period_s, bound_cores()});
  const std::vector<std::string> all = world.communicator().gather_text(own);
  std::vector<RankCores> ranks;
  for (int rank = 0; rank < world.size(); ++rank)
    ranks.push_back(parse(all[static_cast<std::size_t>(rank)], world.host(rank)));
  const std::vector<plan::Processor> processors = processors_of(ranks);
  return *std::min_element(processors.begin(), processors.end(),
                           [](const auto& a, const auto& b) { return a.share < b.share; });
}

}  // namespace convoy::train
