#include "base/cpu_quota.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace convoy {
namespace {

namespace fs = std::filesystem;

struct Mount {
  std::string group;  // what of the hierarchy is mounted
  std::string folder;
  bool unified = false;  // version 2
};

bool in_list(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Spaces and the like are octal in /proc/self/mountinfo.
std::string unescape(const std::string& text) {
  constexpr std::size_t kDigits = 3;
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string digits = text.substr(std::min(at + 1, text.size()), kDigits);
    if (text[at] == '\\' && digits.size() == kDigits &&
        digits.find_first_not_of("01234567") == std::string::npos) {
      plain += static_cast<char>(std::stoi(digits, nullptr, 8));
      at += kDigits;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

// The hierarchies in which CPUs can be limited.
std::vector<Mount> cpu_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t cut = line.find(" - ");
    if (cut == std::string::npos) continue;
    std::istringstream before(line.substr(0, cut)), after(line.substr(cut + 3));
    std::string skipped, group, folder, type, source, options;
    before >> skipped >> skipped >> skipped >> group >> folder;
    after >> type >> source >> options;
    if (type == "cgroup2" || (type == "cgroup" && in_list(options, "cpu"))) {
      mounts.push_back({unescape(group), root + unescape(folder), type == "cgroup2"});
    }
  }
  return mounts;
}

// The group of this process in version 1's hierarchy of `cpu`, and in version 2.
std::map<bool, std::string> own_groups(const std::string& root) {
  std::map<bool, std::string> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || in_list(controllers, "cpu"))
      groups[controllers.empty()] = line.substr(second + 1);
  }
  return groups;
}

CpuLimit quota_in(const fs::path& folder, bool unified) {
  std::string quota;  // a number, or "max" or -1
  double period_us = 0;
  if (unified) {
    std::ifstream(folder / "cpu.max") >> quota >> period_us;
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period_us;
  }
  const double quota_us = std::atof(quota.c_str());
  if (!(quota_us > 0 && period_us > 0)) return {};
  return {quota_us / period_us, period_us / 1e6};
}

}  // namespace

CpuLimit cgroup_cpu_limit(const std::string& root) {
  const std::map<bool, std::string> groups = own_groups(root);
  CpuLimit least;
  for (const Mount& mount : cpu_mounts(root)) {
    const auto own = groups.find(mount.unified);
    if (own == groups.end()) continue;
    // In a container the group may lie outside of what is mounted; then that is all there is to
    // see.
    fs::path inside = fs::path(own->second).lexically_relative(mount.group);
    if (inside.empty() || *inside.begin() == "..") inside = ".";
    fs::path folder = mount.folder;
    std::vector<fs::path> folders{folder};
    for (const fs::path& part : inside) folders.push_back(folder /= part);
    for (const fs::path& each : folders) {
      const CpuLimit quota = quota_in(each, mount.unified);
      if (quota.cpus > 0 && (least.cpus == 0 || quota.cpus < least.cpus)) least = quota;
    }
  }
  return least;
}

}  // namespace convoy
