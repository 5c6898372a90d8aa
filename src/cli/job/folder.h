// The run-time folder of a job.
#pragma once

#include <sys/types.h>

#include <string>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

// A private folder that is gone when the job is, even when this process is killed: a small process,
// the keeper, waits for that and for the supervisors that use the folder.
class JobFolder {
 public:
  // Makes convoy-job-<id> in `parent`. `agent` is the program that keeps it. Throws UsageError if
  // the folder can't be made there.
  JobFolder(std::string agent, const std::string& parent, const std::string& id);

  const std::string& path() const { return path_; }
  pid_t keeper() const { return keeper_; }
  // The keeper has ended before its time: starts another one.
  void replace_keeper();
  // Removes the folder; it is empty of users.
  void remove();

 private:
  // The keeper's answer to its start.
  std::string start_keeper(const char* option);

  std::string agent_;
  std::string path_;
  pid_t keeper_ = 0;
  Descriptor leash_;  // the keeper's standard input
};

}  // namespace convoy::cli
