// How a job of several roles ended, in lines and one exit status.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/job/role.h"

namespace convoy::cli {

// How one run of a role ended.
struct RoleEnd {
  enum class Kind {
    exited,        // with status `code`
    signaled,      // by signal `code`
    cannot_start,  // `text` says why, `code` is the status for that
    lost,          // its supervisor is gone without a word; `text` says what is known
    left           // its supervisor, or mpirun, can't be killed
  };
  Kind kind = Kind::exited;
  int code = 0;
  std::string text;

  bool failed() const { return kind != Kind::exited || code != 0; }
  // Says whether a role that was told to stop did so, within its grace.
  bool well_stopped() const;
};

// Whether the role's next start would end in the same way.
bool is_fatal(const Role& role, const RoleEnd& end);

// "exited with status 3".
std::string how(const RoleEnd& end);

// Everything about a role by the time the job is over.
struct RoleFate {
  std::string label;
  std::string host;  // empty: this one
  bool until_done = true;
  bool essential = true;
  bool stops_anyhow = false;
  bool started = true;          // false: the job was over before
  bool told = false;            // it was told to stop before it ended
  bool waited = false;          // then it was about to be started again
  bool behind_the_end = false;  // it failed when the work was done, before it was told to stop
  int restarts = 0;
  RoleEnd end;                           // the last one
  std::vector<std::string> last_errors;  // its last lines on standard error
};

struct JobFates {
  std::vector<RoleFate> roles;
  int fault = -1;                 // the role that failed first and ended the job
  int interrupted_by = 0;         // the signal that told the job to end
  std::vector<std::string> left;  // processes that could not be killed, "process 123 (sh)"
};

JobOutcome judge_job(const JobFates& end);

}  // namespace convoy::cli
