// Processes of this machine, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/clock.h"

namespace convoy::cli {

// A process as no other: its number alone may come again.
struct Process {
  pid_t pid = 0;
  std::uint64_t started = 0;  // in clock ticks since the machine's start

  auto operator<=>(const Process&) const = default;
};

// The living processes of one moment. To look at them never waits for any, in whatever state it is.
class ProcessTree {
 public:
  ProcessTree();
  // Gives the children of a process; a parent that is gone has none.
  std::vector<Process> children(pid_t parent) const;

 private:
  std::multimap<pid_t, Process> by_parent_;
};

// The process that has this number now, unless it is gone or a zombie.
std::optional<Process> find_process(pid_t pid);

// What a process that started now would have as its time.
std::uint64_t ticks_now();

// The children of `root`, their children, and so on; without zombies. Parents stand before
// children.
std::vector<pid_t> descendants(pid_t root);

// Gives the children of a process alone. Unlike descendants(), this misses none and names no others
// while processes come and go.
std::vector<pid_t> children_of(pid_t parent);

// How to end the descendants of `root` at once.
struct AtOnce {
  // Can be killed: all but an mpirun, and its processes between it and the supervisors that it has
  // started (ssh, daemons), which clean up on this host and others when their mpirun is told to.
  std::vector<pid_t> to_kill;
  // Such mpiruns, known by their names. Those that a rank of another one has started are not among
  // them.
  std::vector<pid_t> mpiruns;
  // What is above these, parents first. When it dies, they may be told twice.
  std::vector<pid_t> above_mpirun;
};
// `mpirun`: one that may have any name.
AtOnce at_once(pid_t root, pid_t mpirun = 0);

// The name that a process has in the kernel, which is its program's; empty if it is gone.
std::string name_of(pid_t pid);

// The arguments of a process, or nothing if it is gone. To ask may take as long as the process
// hangs.
std::vector<std::string> arguments_of(pid_t pid);

// Whether a process has something of its own to do at this signal: it catches it, waits for it or
// ignores it. False of one that the signal would end, and of one that is gone.
bool takes_signal(pid_t pid, int signal);

// "process 123 (sh)", for messages. Does not wait for the process, in whatever state it is.
std::string describe_process(pid_t pid);

// Makes orphans among this process's descendants its own children, so that none can slip away.
void adopt_orphans();

// Kills (SIGKILL) and reaps the descendants of this process until none is left or the time is up.
// Processes in `hopeless`, and what is under them, are killed but not waited for. The caller has
// called adopt_orphans(). Returns the processes that are left: all hopeless ones that are, and what
// has outlived its SIGKILL for at least half of the time.
std::vector<pid_t> kill_descendants(std::chrono::milliseconds limit,
                                    const std::set<pid_t>& hopeless = {});

// Waits for the descendants to end by themselves, reaping them. True if none is left.
bool await_descendants(std::chrono::milliseconds limit);

// This passes from SIGKILL to the conclusion that it is of no use.
inline constexpr std::chrono::milliseconds kKillPatience{4000};

// Ends processes that belong to nobody any more: SIGTERM, and SIGKILL a second later. If ranks of
// `convoy run` are among them, or an mpirun, those that were not told before are first given 4 s:
// that mpirun has been told by its parent's death, and a second SIGTERM would make it leave its
// files behind.
class Leftovers {
 public:
  static constexpr std::chrono::milliseconds kAlone{4000};
  static constexpr std::chrono::milliseconds kTold{1000};

  // What is due to processes.
  struct Due {
    std::vector<pid_t> terminated;
    std::vector<pid_t> killed;
    std::vector<pid_t> lasting;  // there although they were killed kKillPatience ago, or earlier
  };

  // Does what is due to these, which are all there are now. To be called again and again. Returns
  // those that last.
  std::vector<pid_t> end(const std::vector<pid_t>& left);
  // What that is for processes of which some are of an MPI job or none, at this time.
  Due next(Clock::time_point now, const std::vector<Process>& left, bool of_mpi_job);

 private:
  struct State {
    Clock::time_point since;
    std::optional<Clock::time_point> told_at = std::nullopt;
  };
  std::map<Process, State> known_;
};

// Ends the descendants of this process so, and reaps them. The caller has called adopt_orphans().
// True if none is left within 7 s.
bool end_descendants();

}  // namespace convoy::cli
