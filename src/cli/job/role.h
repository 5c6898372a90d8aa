// A job of several programs.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace convoy::cli {

// Whether a role is started again when it has ended, and how often.
struct Restart {
  enum class When {
    never,
    on_failure,  // after an exit status other than 0, a signal, or the loss of its supervisor
    always       // after any end, without a limit
  };
  static constexpr int kNoLimit = std::numeric_limits<int>::max();

  When when = When::never;
  int times = 3;                // with on_failure: in all
  double delay_s = 1;           // before the first restart; doubles with each one
  double longest_delay_s = 30;  // a run that lasts longer than this makes the next delay the first
};

// The pause before a role is started again, in seconds, or nothing if it stays as it is.
// `restarts`: how often that has happened; `in_a_row`: how often since a run that lasted.
std::optional<double> pause_before_restart(const Restart& rule, bool failed, int restarts,
                                           int in_a_row);

// One program of a job.
struct Role {
  std::string name;  // several roles may share it, with indices of their own
  int index = 0;
  std::vector<std::string> argv;  // the program, looked for in PATH, and its arguments
  std::vector<std::string> env;   // NAME=value, added to the environment of the job
  std::string host;               // empty: this one
  Restart restart;
  // The job is done when every role that has this has ended with 0. The others are services: they
  // are stopped then.
  bool until_done = true;
  // When it ends in failure and is not started again, the job has failed and all others are ended.
  bool essential = true;
  // With essential = false this means that the job has failed when every other role of its name has
  // failed as well.
  bool last_essential = false;
  // When each of the others is over, but not all of them in failure, all work may be done: the job
  // then has so many seconds to come to its end, or it has failed.
  double last_patience_s = std::numeric_limits<double>::infinity();
  // When the work is done, or others ask to be started again (75) for it, how this one stops is
  // said, and nothing has failed: what it would have written isn't needed any more, or is saved.
  bool stops_anyhow = false;
  // Exit statuses after which it is never started again, and the job has failed: 2, say, where the
  // next start would find the same mistake.
  std::vector<int> fatal = {};
  // Roles are stopped in ascending order; a next number waits for the end of the one before.
  int stop_order = 0;
  // Its lines appear without "[label] " in front.
  bool plain = false;
  // What it prints on standard output reaches the terminal as it comes, so that it may draw a bar;
  // lines of others take the bar's place until it is drawn again.
  bool draws = false;
};

// "worker-2"; just the name for the only role that has it.
std::string label_of(const Role& role, std::span<const Role> roles);

// Throws UsageError for roles that make no sense.
void check_roles(std::span<const Role> roles);

struct JobOptions {
  std::string name = "job";
  std::string speaker = "convoy job";  // begins lines of the job's own
  bool announces = false;              // also says when roles start
  // SIGUSR1 stops the job, as SIGTERM does, and is not passed on.
  bool stopped_by_usr1 = false;
  double grace_s = 10;  // from SIGTERM to SIGKILL, when roles are stopped
  // Where the private folder of the job is made; empty: $TMPDIR, or /tmp. Roles on other hosts have
  // to see it, too.
  std::string folder;
};

struct JobOutcome {
  int exit_status = 0;
  std::vector<std::string> lines;  // how it ended; empty after success
};

// Starts the roles and returns when no process of the job is left. Each role runs under a
// supervisor and in a process group of its own, without standard input, and finds in its
// environment CONVOY_ROLE, CONVOY_ROLE_INDEX, CONVOY_ROLE_COUNT (roles of this name),
// CONVOY_ROLE_RESTARTS (how often it has been started again), CONVOY_JOB_ID and
// CONVOY_JOB_FOLDER, a folder that is removed at the end; what makes this process a rank is not in
// it. Whole lines of the roles' output appear on this process's standard output and error, behind
// "[label] "; lines of "convoy job: ..." tell of restarts. Meanwhile SIGTERM, SIGINT and SIGHUP
// (these two unless this process ignores them) stop the job, the second one kills it, and SIGUSR1
// (unless the options say otherwise) and SIGUSR2 are passed to all roles. A role on another host is
// started by mpirun.
//
// Nothing of the job stays when this process or any other of it is killed (kill -9). A process that
// can't be killed is not waited for; one that is there at the end is named, and makes it a failure.
//
// Throws UsageError for roles that make no sense, and Failure when nothing could be started. To be
// called from the main thread of a process that has no other children; it adopts what its
// descendants leave behind, ignores SIGPIPE from then on, and is no rank any more (see
// forget_rank()).
JobOutcome run_job(std::span<const Role> roles, const JobOptions& options);

}  // namespace convoy::cli
