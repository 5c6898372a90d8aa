#include "base/cgroups.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

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

// The hierarchies in which the controller may limit.
std::vector<Mount> mounts_of(const std::string& controller, const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t cut = line.find(" - ");
    if (cut == std::string::npos) continue;
    std::istringstream before(line.substr(0, cut)), after(line.substr(cut + 3));
    std::string skipped, group, folder, type, source, options;
    before >> skipped >> skipped >> skipped >> group >> folder;
    after >> type >> source >> options;
    if (type == "cgroup2" || (type == "cgroup" && in_list(options, controller))) {
      mounts.push_back({unescape(group), root + unescape(folder), type == "cgroup2"});
    }
  }
  return mounts;
}

// The group of this process in version 1's hierarchy of the controller, and in version 2.
std::map<bool, std::string> own_groups(const std::string& controller, const std::string& root) {
  std::map<bool, std::string> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || in_list(controllers, controller))
      groups[controllers.empty()] = line.substr(second + 1);
  }
  return groups;
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const std::string& controller, const std::string& root) {
  const std::map<bool, std::string> groups = own_groups(controller, root);
  std::vector<CgroupFolder> folders;
  for (const Mount& mount : mounts_of(controller, root)) {
    const auto own = groups.find(mount.unified);
    if (own == groups.end()) continue;
    // In a container the group may lie outside of what is mounted; then that is all there is to
    // see.
    fs::path inside = fs::path(own->second).lexically_relative(mount.group);
    if (inside.empty() || *inside.begin() == "..") inside = ".";
    fs::path folder = mount.folder;
    folders.push_back({folder, mount.unified});
    for (const fs::path& part : inside) {
      if (part != ".") folders.push_back({folder /= part, mount.unified});
    }
  }
  return folders;
}

}  // namespace convoy
