// Processes of a job that belong to no role any more.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "cli/launch/processes.h"

namespace convoy::cli {

// Ends the children of this process that are nobody's, and all under them. The caller has called
// adopt_orphans(). Those that SIGKILL does not end (they hang in the kernel, or belong to another
// user) are given up: nothing waits for them, nor for what they start from then on. What they had
// started before is ended as everything else.
class Orphans {
 public:
  // Does what is due to all children but `known`. To be called again and again. Whether any are
  // left that are worth to wait for.
  bool end(const std::set<pid_t>& known);
  void give_up(pid_t pid);
  // Gives the processes that were given up since the last call.
  std::vector<pid_t> take_given_up();
  // Gives all processes that were given up and have not ended.
  std::set<pid_t> given_up() const;
  // Is told of every child that has ended. Says whether it had been given up: what was under it is
  // a child now.
  bool reaped(pid_t pid);

 private:
  // When it was given up; the end of time if it was not.
  std::uint64_t given_up_at(const Process& process) const;

  Leftovers leftovers_;
  struct GivenUp {
    Process process;
    std::uint64_t at;  // in clock ticks, as Process::started
  };
  std::map<pid_t, GivenUp> given_up_;
  std::vector<pid_t> news_;
};

}  // namespace convoy::cli
