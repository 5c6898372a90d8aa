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

// A word as a shell takes it.
std::string shell_quoted(const std::string& word);

// Where somebody types what a job would start.
struct Terminal {
  std::string folder;        // that the job is started in
  bool tells_roles = false;  // programs find in their environment which role they are
};

// What would be started, for people: a comment for each role, and behind it the line that starts it
// from any folder, as a shell takes it.
std::string describe(const JobFile& job, const Terminal& terminal);

}  // namespace convoy::cli
