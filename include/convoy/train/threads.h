// Threads of one rank.
#pragma once

namespace convoy::comm {
class World;
}

namespace convoy::train {

// Sets the number of threads that LibTorch's operators (and Convoy's fused optimizers) use in this
// process, and returns it. 0: OMP_NUM_THREADS, which `convoy run` sets for each rank so that ranks
// of one host don't overlap; without it, one thread per core this process may run on, or World's
// cores(), so that ranks don't overlap when mpirun or srun has started them.
//
// Call before the first operator. Throws UsageError for a negative number and for an
// OMP_NUM_THREADS that is not a positive number.
int set_threads(int threads = 0);
int set_threads(const comm::World& world, int threads = 0);

}  // namespace convoy::train
