#include "base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/cgroups.h"

namespace convoy {
namespace {

std::uint64_t cut_to_limit(std::uint64_t available, const CgroupFolder& group) {
  const std::string folder = group.folder.native() + "/", stat = folder + "memory.stat";
  const std::string prefix = group.unified ? "" : "total_";
  std::uint64_t limit = 0, used = 0;
  if (!number_of(folder + (group.unified ? "memory.max" : "memory.limit_in_bytes"), limit) ||
      !number_of(folder + (group.unified ? "memory.current" : "memory.usage_in_bytes"), used)) {
    return available;  // "max", or no such file
  }
  // Version 1 tells of the groups around, also of those that can't be seen from in a container.
  std::uint64_t around = 0;
  if (number_in(stat, "hierarchical_memory_limit", around)) limit = std::min(limit, around);
  std::uint64_t inactive = 0, active = 0;
  number_in(stat, prefix + "inactive_file", inactive);
  number_in(stat, prefix + "active_file", active);
  const std::uint64_t cached = inactive + active;
  const std::uint64_t held = used > cached ? used - cached : 0;
  return std::min(available, limit > held ? limit - held : 0);
}

}  // namespace

bool number_in(const std::string& path, const std::string& name, std::uint64_t& number) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word == name && file >> number) return true;
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return false;
}

bool number_of(const std::string& path, std::uint64_t& number) {
  std::ifstream file(path);
  return static_cast<bool>(file >> number);
}

std::uint64_t cut_to_cgroups(std::uint64_t available, const std::string& root) {
  std::vector<CgroupFolder> groups = cgroup_folders("memory", root);
  // Where nothing is said of mounts: in a container its own group is often the root.
  groups.push_back({root + "/sys/fs/cgroup", true});
  groups.push_back({root + "/sys/fs/cgroup/memory", false});
  for (const CgroupFolder& group : groups) available = cut_to_limit(available, group);
  return available;
}

}  // namespace convoy
