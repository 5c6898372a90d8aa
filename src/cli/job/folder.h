// The run-time folder of a job.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

// A private folder that is gone when the job is, even when this process is killed: a small process,
// the keeper, waits for that and for the supervisors that use the folder.
class JobFolder {
 public:
  // Makes convoy-job-<id> in `parent`. `agent` is the program that keeps it. Throws UsageError if
  // the folder can't be made there. A file system may take its time; `interrupted` is asked
  // meanwhile, and ends the wait: the folder may not be there then.
  JobFolder(std::string agent, const std::string& parent, const std::string& id,
            std::function<bool()> interrupted);

  const std::string& path() const { return path_; }
  pid_t keeper() const { return keeper_; }
  // The keeper has ended before its time, and was reaped: starts another one.
  void replace_keeper();
  // Removes the folder; it is empty of users. False if the keeper hangs and can't be killed: so
  // would whoever did its work.
  bool remove();

 private:
  // The keeper's answer to its start: empty if it has ended, nothing if it did not come in time.
  std::optional<std::string> start_keeper(const char* option, Clock::time_point until);
  bool keeper_ends_within(std::chrono::milliseconds limit);
  // False if it can't be killed.
  bool kill_keeper();

  std::string agent_;
  std::function<bool()> interrupted_;
  std::string path_;
  pid_t keeper_ = 0;
  Descriptor leash_;  // the keeper's standard input
};

}  // namespace convoy::cli
