#include "cli/plan/trial_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/own_files.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRandom = 6;

// "PID-XXXXXX", as mkdtemp makes it.
bool is_trial_name(std::string_view name) {
  if (name.size() < kRandom + 2) return false;
  const std::string_view end = name.substr(name.size() - kRandom);
  const auto random = [](unsigned char c) { return std::isalnum(c) != 0; };
  return is_numbered_name(name.substr(0, name.size() - kRandom), "", "-") &&
         std::all_of(end.begin(), end.end(), random);
}

// The lock of a training's folder, or none where another process has it, or there is none.
Descriptor lock_of(const std::string& folder, int flags) {
  Descriptor lock(
      ::open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666));
  struct stat status {};
  const bool own = lock.open() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 &&
                   ::fstat(lock.get(), &status) == 0 && status.st_nlink > 0;
  return own ? std::move(lock) : Descriptor();
}

// The lock, by which the folder is known, goes last.
void remove_folder(const std::string& path) {
  bool empty = true;
  std::error_code error;
  for (fs::directory_iterator i(path, error), end; !error && i != end; i.increment(error)) {
    if (i->path().filename() == "lock") continue;
    std::error_code failed;
    fs::remove_all(i->path(), failed);
    empty = empty && !failed;
  }
  if (error || !empty) return;  // the next one tries again
  ::unlink((path + "/lock").c_str());
  ::rmdir(path.c_str());
}

}  // namespace

// By a process that may be killed meanwhile: what it leaves then has to be known by its lock.
TrialFolder::~TrialFolder() {
  if (!path_.empty()) remove_folder(path_);
}

TrialFolders::TrialFolders(const std::string& plan)
    : path_((fs::absolute(plan) / "trials").lexically_normal().string()) {
  remove_left();
}

TrialFolders::~TrialFolders() {
  remove_left();
  ::rmdir(path_.c_str());
}

void TrialFolders::remove_left() const {
  std::error_code error;
  for (fs::directory_iterator i(path_, error), end; !error && i != end; i.increment(error)) {
    std::error_code ignored;
    if (!is_trial_name(i->path().filename().string()) || i->is_symlink(ignored)) continue;
    const std::string folder = i->path().string();
    // One without a lock has just been made, or nothing is in it.
    if (!fs::exists(folder + "/lock", ignored)) {
      ::rmdir(folder.c_str());
    } else if (const Descriptor left = lock_of(folder, 0); left.open()) {
      remove_folder(folder);
    }
  }
}

TrialFolder TrialFolders::fresh() const {
  // Another process may remove it before it is locked. Where the file system has no locks, there is
  // none, and nothing of others is removed.
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    make_folders(path_);
    std::string name = path_ + "/" + std::to_string(getpid()) + "-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      if (errno == ENOENT && i < kTries) continue;  // another process has just removed `trials`
      throw Failure("cannot make a folder in " + path_ + ": " + std::strerror(errno));
    }
    Descriptor lock = lock_of(name, O_CREAT);
    if (lock.open() || i == kTries) return {name, std::move(lock)};
    ::rmdir(name.c_str());
  }
}

}  // namespace convoy::cli
