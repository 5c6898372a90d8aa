#include "convoy/base/system.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_quota.h"

namespace convoy {
namespace {

constexpr std::uint64_t kKib = 1024;

// The number after `name` in a file of lines "name number ..."; nothing where there is none.
std::optional<std::uint64_t> number_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t number = 0;
  while (file >> word) {
    if (word == name && file >> number) return number;
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_of(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // "max", or no such file
}

}  // namespace

std::uint64_t resident_memory() {
  return number_in("/proc/self/status", "VmRSS:").value_or(0) * kKib;
}

std::uint64_t peak_memory() { return number_in("/proc/self/status", "VmHWM:").value_or(0) * kKib; }

bool forget_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);  // proc(5): the peak becomes what is there
}

namespace {

// Where the memory of this process's cgroup is told of; of version 1 the controller has a place of
// its own. In a container that is often the root.
std::vector<std::string> memory_folders() {
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> folders{root, root + "/memory"};
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t path = line.rfind(':');
    if (path == std::string::npos) continue;
    if (line.starts_with("0::")) folders.push_back(root + line.substr(path + 1));
    if (line.find(":memory:") != std::string::npos)
      folders.push_back(root + "/memory" + line.substr(path + 1));
  }
  return folders;
}

std::uint64_t cut_to_limit(std::uint64_t available, const std::string& folder) {
  const bool old = !number_of((folder + "/memory.current").c_str());
  const auto limit = number_of((folder + (old ? "/memory.limit_in_bytes" : "/memory.max")).c_str());
  const auto used =
      number_of((folder + (old ? "/memory.usage_in_bytes" : "/memory.current")).c_str());
  if (!limit || !used) return available;
  const std::string stat = folder + "/memory.stat", all = old ? "total_" : "";
  const std::uint64_t cached = number_in(stat.c_str(), all + "inactive_file").value_or(0) +
                               number_in(stat.c_str(), all + "active_file").value_or(0);
  const std::uint64_t held = *used > cached ? *used - cached : 0;
  return std::min(available, *limit > held ? *limit - held : 0);
}

}  // namespace

std::uint64_t host_memory() {
  return number_in("/proc/meminfo", "MemAvailable:").value_or(0) * kKib;
}

std::uint64_t available_memory() {
  std::uint64_t available = host_memory();
  for (const std::string& folder : memory_folders()) available = cut_to_limit(available, folder);
  return available;
}

std::uint64_t address_space_left() {
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kAll;
  const std::uint64_t mapped = number_in("/proc/self/status", "VmSize:").value_or(0) * kKib;
  return limit.rlim_cur > mapped ? limit.rlim_cur - mapped : 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  return name.data();
}

std::vector<int> bound_cores() {
  std::vector<int> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mask)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

std::vector<int> usable_cores() {
  std::vector<int> cores = bound_cores();
  if (const double quota = cgroup_cpu_quota(); quota > 0) {
    const auto allowed = static_cast<std::size_t>(std::max(1.0, std::ceil(quota)));
    cores.resize(std::min(cores.size(), allowed));
  }
  return cores;
}

bool bind_to_cores(const std::vector<int>& cores) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int core : cores) CPU_SET(core, &mask);
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

std::string environment(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

std::string describe_signal(int signal) {
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

}  // namespace convoy
