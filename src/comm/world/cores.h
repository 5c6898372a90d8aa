// How the ranks of a host share its cores.
#pragma once

#include <string>
#include <vector>

namespace convoy::comm {

// "0-3,8" for {0, 1, 2, 3, 8}; cores ascending.
std::string format_cores(const std::vector<int>& cores);

// How many cores are left to `rank` when each core is shared evenly by the ranks of its host that
// may run on it; rounded down, at least 1. `hosts` and `cores` (as format_cores writes them) are by
// rank.
int share_of_cores(int rank, const std::vector<std::string>& hosts,
                   const std::vector<std::string>& cores);

// Whether `rank` has less than one core by that: then a rank that waits has to let others run.
bool is_crowded(int rank, const std::vector<std::string>& hosts,
                const std::vector<std::string>& cores);

// Lets who waits inside Open MPI leave the core to others, if the launcher's environment tells of
// more ranks on this host than this process has cores. To be called before MPI_Init; what the user
// has set stays.
void yield_when_crowded();

}  // namespace convoy::comm
