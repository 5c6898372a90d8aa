// Runs one job under mpirun and says how it ended.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/hosts.h"
#include "cli/launch/mpirun.h"
#include "cli/launch/verdict.h"

namespace convoy::cli {

struct LaunchOptions {
  Mpirun mpirun;
  int ranks = 1;
  // Consecutive ranks that hold a model together: what is said of a rank names its replica and
  // partition where there are several.
  int partitions = 1;
  std::vector<HostSlots> hosts;
  std::vector<std::string> mpirun_arguments;
  std::string threads;  // OMP_NUM_THREADS of each rank; empty: the supervisors decide
  bool bind = true;
  std::string logs;    // folder of rank-N.log; empty: none
  bool label = false;  // "[rank] " before each line of output
  // How long the ranks may go on when the job is told to end (SIGINT, SIGTERM, SIGHUP). They are
  // told by SIGUSR1, and finish by themselves. 0: SIGTERM, and SIGKILL 3 s later.
  double grace_s = 0;
  bool verbose = false;  // show mpirun's command line and messages
  // Begins the lines of its own on standard error, the last of which is that of the verdict. Empty:
  // the caller says that.
  std::string speaker = "";
  std::vector<std::string> command;
};

// The supervisor program that belongs to this executable. Throws Failure if it is not there.
std::string supervisor_path();

// Starts the ranks and returns when no process of the job is left on this machine: at the latest 10
// s after the first rank failed. The ranks' output appears on this process's standard output and
// error. Meanwhile SIGINT, SIGTERM and SIGHUP end the job (SIGINT and SIGHUP not if this process
// ignores them), and SIGUSR1 and SIGUSR2 are passed to the ranks. A process that can't be killed is
// not waited for, but named. To be called from the main thread: mpirun is tied to the life of the
// thread that started it.
Verdict launch(const LaunchOptions& options);

}  // namespace convoy::cli
