// The groups in which the kernel counts and limits what this process uses.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace convoy {

struct CgroupFolder {
  std::filesystem::path folder;
  bool unified = false;  // version 2
};

// Where this process's groups for a controller ("cpu", "memory") are told of, versions 1 and 2: of
// each hierarchy from the outermost group that can be seen to its own. `root` is put before every
// path, for tests.
std::vector<CgroupFolder> cgroup_folders(const std::string& controller,
                                         const std::string& root = "");

}  // namespace convoy
