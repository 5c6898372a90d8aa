#include "convoy/base/system.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/cpu_quota.h"
#include "base/memory_limit.h"

namespace convoy {
namespace {

constexpr std::uint64_t kKib = 1024;

// Bytes of a file of lines "name number kB"; 0 where there is none.
std::uint64_t bytes_in(const char* path, const char* name) {
  std::uint64_t number = 0;
  return number_in(path, name, number) ? number * kKib : 0;
}

}  // namespace

std::uint64_t resident_memory() { return bytes_in("/proc/self/status", "VmRSS:"); }

std::uint64_t peak_memory() { return bytes_in("/proc/self/status", "VmHWM:"); }

bool forget_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);  // proc(5): the peak becomes what is there
}

std::uint64_t host_memory() { return bytes_in("/proc/meminfo", "MemAvailable:"); }

std::uint64_t available_memory() { return cut_to_cgroups(host_memory()); }

std::uint64_t address_space_left() {
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kAll;
  const std::uint64_t mapped = bytes_in("/proc/self/status", "VmSize:");
  return limit.rlim_cur > mapped ? limit.rlim_cur - mapped : 0;
}

std::uint64_t make_room_for_files(std::uint64_t more) {
  constexpr std::uint64_t kOthers = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return more;
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const auto count = static_cast<std::uint64_t>(std::distance(begin(open), end(open)));
  const rlim_t wanted = count + more + kOthers;
  if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = std::min(limit.rlim_max, wanted);
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur > count ? limit.rlim_cur - count : 0;
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
