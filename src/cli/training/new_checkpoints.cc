#include "cli/training/new_checkpoints.h"

#include <sys/stat.h>

#include <algorithm>

#include "convoy/train/checkpoint_folder.h"
#include "train/checkpoint/resume.h"

namespace convoy::cli {

NewCheckpoints::NewCheckpoints(std::string run_folder, bool all)
    : run_folder_(std::move(run_folder)) {
  if (!all) before_ = now();
}

bool NewCheckpoints::any() const {
  const Checkpoints there = now();
  return !std::ranges::includes(before_, there);
}

NewCheckpoints::Checkpoints NewCheckpoints::now() const {
  Checkpoints found;
  const train::CheckpointFolder folder(train::checkpoints_in(run_folder_));
  for (const std::string& path : folder.list()) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) == 0) found.emplace(path, facts.st_ino);
  }
  return found;
}

}  // namespace convoy::cli
