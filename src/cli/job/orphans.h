// Processes of a job that belong to no role any more.
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "cli/launch/processes.h"

namespace convoy::cli {

// Ends the children of this process that are nobody's, and all under them. The caller has called
// adopt_orphans(). Those that SIGKILL does not end (they hang in the kernel, or belong to another
// user) are given up: nothing waits for them.
class Orphans {
 public:
  // Does what is due to all children but `known`. To be called again and again. Whether any are
  // left that are worth to wait for.
  bool end(const std::set<pid_t>& known);
  void give_up(pid_t pid);
  // Those given up since the last call.
  std::vector<pid_t> take_given_up();
  // Its number may come again.
  void reaped(pid_t pid) { given_up_.erase(pid); }

 private:
  Leftovers leftovers_;
  std::set<pid_t> given_up_;
  std::vector<pid_t> news_;
};

}  // namespace convoy::cli
