#include "cli/server/set_aside.h"

#include <filesystem>

#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

void make(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Failure("can't make " + folder.string() + ": " + error.message());
}

// Whatever of these folders is in both comes into one.
void merge(const fs::path& from, const fs::path& to) {
  make(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path target = to / entry.path().filename();
    std::error_code error;
    if (entry.is_directory() && fs::is_directory(target)) {
      merge(entry.path(), target);
      continue;
    }
    fs::rename(entry.path(), target, error);
    if (error) throw Failure("can't move " + entry.path().string() + " back: " + error.message());
  }
}

}  // namespace

void wipe(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw Failure("can't remove " + path.string() + ": " + error.message());
}

bool SetAside::any() const {
  std::error_code error;
  return fs::exists(where(), error);
}

void SetAside::take(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) continue;
    const fs::path target = fs::path(where()) / fs::path(path).lexically_relative(folder_);
    if (fs::exists(fs::symlink_status(target, error))) {
      wipe(path);
      continue;
    }
    make(target.parent_path());
    fs::rename(path, target, error);
    if (error == std::errc::device_or_resource_busy || error == std::errc::cross_device_link) {
      for (const auto& inner : fs::directory_iterator(path)) wipe(inner.path());
    } else if (error) {
      throw Failure("can't move " + path + " to " + target.string() + ": " + error.message());
    }
  }
}

void SetAside::restore() {
  if (!any()) return;
  merge(where(), folder_);
  drop();
}

void SetAside::drop() {
  // Half of it may be left, which is not what is to be put back one day.
  constexpr int kMost = 1000;
  std::error_code error;
  fs::path dropped;
  for (int n = 1; n <= kMost; ++n) {
    dropped = fs::path(folder_) / (kDropped + (n == 1 ? "" : "-" + std::to_string(n)));
    fs::remove_all(dropped, error);
    if (!fs::exists(fs::symlink_status(dropped, error))) break;
  }
  fs::rename(where(), dropped, error);
  wipe(error ? fs::path(where()) : dropped);
}

}  // namespace convoy::cli
