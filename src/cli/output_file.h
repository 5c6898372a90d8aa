// Files that are written at the end of long work.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "convoy/base/error.h"

namespace convoy::cli {

// Throws UsageError naming the option when this file can't be made, before the work begins.
inline void check_output_file(const std::string& option, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return;
  const fs::path parent = fs::absolute(path).parent_path();
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw UsageError(option + ": can't write " + path + ": it is a folder");
  }
  if (::access(parent.c_str(), W_OK) != 0) {
    throw UsageError(option + ": can't write " + path + ": " + parent.string() + ": " +
                     std::strerror(errno));
  }
}

}  // namespace convoy::cli
