// Whether a run has written a checkpoint since a moment.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>

namespace convoy::cli {

class NewCheckpoints {
 public:
  // Checkpoints that are there now are not new, unless `all`.
  explicit NewCheckpoints(std::string run_folder, bool all = false);
  // One that has become the newest since later ones were set aside is none; one of the same step as
  // one that was there is.
  bool any() const;

 private:
  // By path and inode: folders that are moved keep theirs.
  using Checkpoints = std::set<std::pair<std::string, ino_t>>;
  Checkpoints now() const;

  std::string run_folder_;
  Checkpoints before_;
};

}  // namespace convoy::cli
