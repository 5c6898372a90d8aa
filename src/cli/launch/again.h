// Commands that are started alone and need ranks.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

// Whether this process is a rank that mpirun, srun or `convoy run` started.
bool is_a_rank();

// Whether it is so as the one task of a Slurm step that was not started for ranks of Convoy: a
// shell of `salloc` that runs in a step (use_interactive_step) has the variables of a rank, and may
// start ranks all the same.
bool is_a_lone_task();

// Replaces this process by `convoy run OPTIONS -- <the same command line>`. Returns only by
// throwing Failure.
[[noreturn]] void run_again(const std::vector<std::string>& options);
// `convoy run -n RANKS`.
[[noreturn]] void run_again_as_ranks(int ranks);

}  // namespace convoy::cli
