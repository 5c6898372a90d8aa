// Processes of this machine, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace convoy::cli {

// The children of `root`, their children, and so on; without zombies. Parents stand before
// children.
std::vector<pid_t> descendants(pid_t root);

// Its children alone. Unlike descendants(), this misses none and names no others while processes
// come and go.
std::vector<pid_t> children_of(pid_t parent);

// The descendants of `root` that can be killed at once: all but an mpirun that has started
// supervisors, and its processes between it and these (ssh, daemons), which clean up on this host
// and others when their mpirun is told to.
std::vector<pid_t> all_but_mpirun(pid_t root);

// The arguments of a process, or nothing if it is gone.
std::vector<std::string> arguments_of(pid_t pid);

// "process 123 (sh)", for messages. Does not wait for the process, in whatever state it is.
std::string describe_process(pid_t pid);

// Makes orphans among this process's descendants its own children, so that none can slip away.
void adopt_orphans();

// Kills (SIGKILL) and reaps every descendant of this process until none is left or the time is up.
// The caller has called adopt_orphans(). True if none is left.
bool kill_descendants(std::chrono::milliseconds limit);

// Waits for the descendants to end by themselves, reaping them. True if none is left.
bool await_descendants(std::chrono::milliseconds limit);

// Ends processes that belong to nobody any more: SIGTERM, and SIGKILL a second later. If ranks of
// `convoy run` are among them, or their mpirun, all are first given 4 s: that mpirun has been told
// by its parent's death, and a second SIGTERM would make it leave its files behind.
class Leftovers {
 public:
  // Does what is due to these, which are all there are now. To be called again and again. Returns
  // those that are there although they were killed 4 s ago, or earlier.
  std::vector<pid_t> end(const std::vector<pid_t>& left);

 private:
  struct Process {
    std::chrono::steady_clock::time_point since;
    bool told = false;
  };
  std::map<pid_t, Process> known_;
};

// Ends the descendants of this process so, and reaps them. The caller has called adopt_orphans().
// True if none is left within 7 s.
bool end_descendants();

}  // namespace convoy::cli
