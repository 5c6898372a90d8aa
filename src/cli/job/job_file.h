// The file that says which roles a job has.
#pragma once

#include <string>
#include <vector>

#include "cli/job/role.h"

namespace convoy::cli {

struct JobFile {
  JobOptions options;
  std::vector<Role> roles;
};

// Reads a job file (docs/jobs.md). `name` is its path: it stands in messages, and without its
// folder and ending it is the name of a job that says none. Throws UsageError with all problems, a
// line each: also for programs that are not here, unless they are to run elsewhere.
JobFile parse_job_file(const std::string& text, const std::string& name);

// What would be started, for people.
std::string describe(const JobFile& job);

}  // namespace convoy::cli
