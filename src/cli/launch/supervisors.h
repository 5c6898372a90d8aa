// The supervisors of ranks, as far as they run on this machine.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/launch/processes.h"
#include "cli/launch/report.h"

namespace convoy::cli {

// Finds the processes that have reported. The number in a report may be of another machine with
// this name, or used again. Does not wait for a process that hangs, unless it does so when it is
// first looked at.
class Supervisors {
 public:
  // `token` is among their arguments.
  explicit Supervisors(std::string token);

  // Gives all that have not ended, if it is known of every one of `ranks` that it runs on this
  // machine, or did.
  std::optional<std::vector<pid_t>> all_here(const std::vector<Report>& reports, int ranks);
  // Gives by rank those that are gone without a last report. Only one that was seen alive can be.
  std::map<int, const Report*> missing(const std::vector<Report>& reports);

 private:
  enum class State { alive, gone, another_process };
  State state_of(const Report& supervised);

  const std::string token_;
  const std::string host_;
  std::set<int> seen_alive_;      // ranks
  std::map<Process, bool> ours_;  // what was looked at, and whether it is a supervisor of this job
};

}  // namespace convoy::cli
