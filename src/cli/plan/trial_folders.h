// Folders of trainings under way: trials/PID-XXXXXX in the folder of a plan, each with a lock.
#pragma once

#include <string>
#include <utility>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

// One of them, which is this process's and its training's alone. Removed at the end with what is in
// it.
class TrialFolder {
 public:
  TrialFolder(std::string path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  TrialFolder(TrialFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  TrialFolder& operator=(TrialFolder&&) = delete;
  ~TrialFolder();

  const std::string& path() const { return path_; }
  // A training that inherits it holds the lock, too, until it has ended.
  const Descriptor& lock() const { return lock_; }

 private:
  std::string path_;
  Descriptor lock_;
};

class TrialFolders {
 public:
  // In this folder of a plan. Removes what processes that were killed have left: folders with such
  // a name whose lock is free, and nothing else. Numbers of processes would not do for that: those
  // of another container mean nothing here.
  explicit TrialFolders(const std::string& plan);
  // Does so again, since trainings may have been ending there, and removes `trials`, if nothing is
  // in it.
  ~TrialFolders();
  TrialFolders(const TrialFolders&) = delete;
  TrialFolders& operator=(const TrialFolders&) = delete;

  // Makes one that was not there before. Throws Failure where it can't be made.
  TrialFolder fresh() const;
  const std::string& path() const { return path_; }

 private:
  void remove_left() const;

  std::string path_;
};

}  // namespace convoy::cli
