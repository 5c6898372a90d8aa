// How a job ended, in one line and one exit status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/launch/filter.h"
#include "cli/launch/report.h"

namespace convoy::cli {

// Everything the launcher has learned by the time no process is left that it can end.
struct JobEnd {
  int ranks = 0;
  int partitions = 1;                // consecutive ranks that hold a model together
  std::vector<Report> reports;       // in the order they arrived
  std::optional<Notice> notice;      // of mpirun
  std::optional<Notice> last_words;  // of a rank
  std::optional<Notice> lost;    // a supervisor that is gone without a word, as the launcher saw it
  int interrupted_by = 0;        // the signal that `convoy run` itself received, 0 for none
  bool mpirun_signaled = false;  // how mpirun ended: by signal mpirun_code, or with that status
  int mpirun_code = 0;
  std::vector<std::string> left;  // processes that can't be killed, "process 123 (sh)"
};

struct Verdict {
  int exit_status = 0;
  std::string line;       // without "convoy run: "; empty after success
  bool explained = true;  // false: mpirun's own messages may say more
};

// "was killed by signal 9 (Killed)", "exited with status 3".
std::string how(bool signaled, int code);

// The rank that ended first by its own fault is named; ranks that were ended because of it are not.
Verdict judge(const JobEnd& end);

// The report of that rank, if there is one yet. Ranks that ask to be started again later are not at
// fault.
const Report* first_fault(const JobEnd& end);

}  // namespace convoy::cli
