// This is what this process may use of the machine it runs on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

// Gives the name of this host, as in gethostname(2).
std::string host_name();

// Gives the cores this process may run on, ascending: its affinity mask, cut to the cgroup's CPU
// quota (a container with a quota of 2.5 CPUs on 64 cores gets the first 3). Never empty.
std::vector<int> usable_cores();
// Gives the affinity mask alone.
std::vector<int> bound_cores();

// Says how many bytes of memory can still be had without swapping: what the kernel estimates, cut
// to what is left of the cgroup's limit; files that it caches count as free.
std::uint64_t available_memory();
// Gives the same for all processes of the host together, whatever the cgroup's limit is.
std::uint64_t host_memory();

// Says how many bytes this process alone can still map before it reaches its own limit (RLIMIT_AS,
// as `ulimit -v` sets it), which counts what it shares with others, too; the largest number there
// is without one.
std::uint64_t address_space_left();

// Makes room for `more` open files besides those that this process has, and for a thousand others,
// by raising its limit (RLIMIT_NOFILE, as `ulimit -n` sets it) as far as it may. Says how many more
// it can open then.
std::uint64_t make_room_for_files(std::uint64_t more);

// These say how many bytes of memory this process has now, and the most that it has had since it
// began, or since forget_peak_memory() returned true: as the kernel counts, which looks now and
// then and may be some pages of each thread behind. 0 where it doesn't say.
std::uint64_t resident_memory();
std::uint64_t peak_memory();
bool forget_peak_memory();

// Binds the calling thread, and the threads it starts later, to these cores. False if refused.
bool bind_to_cores(const std::vector<int>& cores);

// Gives the value of an environment variable, or the fallback when it is unset or empty.
std::string environment(const char* name, const std::string& fallback = "");

// "signal 9 (Killed)".
std::string describe_signal(int signal);

}  // namespace convoy
