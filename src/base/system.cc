#include "convoy/base/system.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

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

std::uint64_t available_memory() {
  std::uint64_t available = number_in("/proc/meminfo", "MemAvailable:").value_or(0) * kKib;
  const auto limit = number_of("/sys/fs/cgroup/memory.max");
  const auto used = number_of("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    const std::uint64_t cached =
        number_in("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0) +
        number_in("/sys/fs/cgroup/memory.stat", "active_file").value_or(0);
    const std::uint64_t held = *used > cached ? *used - cached : 0;
    available = std::min(available, *limit > held ? *limit - held : 0);
  }
  return available;
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
