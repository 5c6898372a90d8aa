// Watches over the program of one rank. mpirun starts one supervisor for each rank of `convoy run`.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

struct SupervisorOptions {
  std::string token;    // marks the reports of this job
  std::string threads;  // OMP_NUM_THREADS; empty: decided on the spot
  bool bind = true;
  std::string logs;    // folder for rank-N.log; empty: none
  bool label = false;  // "[rank] " before each line of output
  std::vector<std::string> command;
};

// Runs the program to its end and returns the exit status for mpirun. What it does:
//   - takes its cores, and gives the program the number of threads that fit them;
//   - passes SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 on, and kills a program that outlives the first
//   two
//     by 3 s; SIGALRM is the launcher's way to say SIGTERM through mpirun;
//   - kills the program within a second when mpirun is gone (and the kernel kills it when the
//     supervisor is), together with every process the program has started;
//   - reports the end of the program to the launcher and then keeps its place for 2 s: mpirun would
//     otherwise end the other ranks at once, before the launcher can do it gently.
// To be called once, from a process with a single thread.
int supervise(const SupervisorOptions& options);

}  // namespace convoy::cli
