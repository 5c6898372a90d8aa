// Watches over one program: that of a rank, for which mpirun starts a supervisor, or that of a role
// of `convoy job`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace convoy::cli {

// What is different for the program of a role.
struct RoleOptions {
  std::string folder;  // of the job; it has to be there
  std::chrono::milliseconds grace{0};
  std::vector<std::string> variables;  // names of the role's own
};

struct SupervisorOptions {
  std::string token;    // marks the reports of this job
  std::string threads;  // OMP_NUM_THREADS; empty: decided on the spot
  bool bind = true;
  std::string logs;    // folder for rank-N.log; empty: none
  bool label = false;  // "[rank] " before each line of output
  std::optional<RoleOptions> role;
  std::vector<std::string> command;
};

// Runs the program to its end and returns the exit status for mpirun. What it does:
//   - takes its cores, and gives the program the number of threads that fit them;
//   - passes SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 on, the last two once the program does something
//     about them, and kills a program that outlives the first two by 3 s; SIGALRM is the launcher's
//     way to say SIGTERM through mpirun;
//   - kills the program within a second when mpirun is gone (and the kernel kills it when the
//     supervisor is), together with every process the program has started;
//   - reports the end of the program to the launcher and then keeps its place for 2 s: mpirun would
//     otherwise end the other ranks at once, before the launcher can do it gently.
// The program of a role is no rank:
//   - it gets no cores and no number of threads, and nothing that a launcher of ranks has put into
//     the environment;
//   - what it leaves running is ended politely, since that may be an MPI job, and so is the program
//     itself when whoever started the supervisor is gone;
//   - it is given its own grace after SIGTERM, and its place is not kept;
//   - as long as the supervisor lives it holds a shared flock(2) on the job's folder.
// To be called once, from a process with a single thread.
int supervise(const SupervisorOptions& options);

}  // namespace convoy::cli
