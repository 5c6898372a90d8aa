// Processes of this machine, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace convoy::cli {

// The children of `root`, their children, and so on; without zombies. Parents stand before
// children.
std::vector<pid_t> descendants(pid_t root);

// The arguments of a process, or nothing if it is gone.
std::vector<std::string> arguments_of(pid_t pid);

// Makes orphans among this process's descendants its own children, so that none can slip away.
void adopt_orphans();

// Kills (SIGKILL) and reaps every descendant of this process until none is left or the time is up.
// The caller has called adopt_orphans(). True if none is left.
bool kill_descendants(std::chrono::milliseconds limit);

// Waits for the descendants to end by themselves, reaping them. True if none is left.
bool await_descendants(std::chrono::milliseconds limit);

}  // namespace convoy::cli
