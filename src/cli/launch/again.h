// Commands that are started alone and need ranks.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

// Whether this process is a rank that mpirun, srun or `convoy run` started.
bool is_a_rank();

// Replaces this process by `convoy run OPTIONS -- <the same command line>`. Returns only by
// throwing Failure.
[[noreturn]] void run_again(const std::vector<std::string>& options);
// `convoy run -n RANKS`.
[[noreturn]] void run_again_as_ranks(int ranks);

}  // namespace convoy::cli
