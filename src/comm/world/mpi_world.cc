#include <mpi.h>

#include <cstdlib>

#include "comm/transports/mpi.h"
#include "comm/world/cores.h"
#include "comm/world/turns.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/comm/mpi.h"
#include "convoy/comm/threads.h"

namespace convoy::comm {
namespace {

// What a launcher leaves in the environment of the ranks it starts: Open MPI, PMIx (srun, PRRTE),
// PMI-1 and 2 (MPICH, Intel MPI, srun).
bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_PORT"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

// Of what use the thread level is, given who else calls MPI.
Progress choose_progress(Progress wanted, int level, int needed_for_thread) {
  const bool possible = level >= needed_for_thread;
  if (wanted == Progress::automatic) return possible ? Progress::thread : Progress::caller;
  if (wanted == Progress::thread && !possible) {
    throw UsageError(std::string("MPI was initialized with ") + level_name(level) +
                     "; Progress::thread needs " + level_name(needed_for_thread) +
                     ". Call MPI_Init_thread(&argc, &argv, " + level_name(needed_for_thread) +
                     ", &provided), or set WorldOptions::progress = Progress::caller");
  }
  return wanted;
}

}  // namespace

World World::join(WorldOptions options) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    throw UsageError(
        "MPI is initialized already: hand your communicator over with "
        "convoy::comm::adopt(MPI_COMM_WORLD) "
        "from <convoy/comm/mpi.h>, or let World::join initialize MPI");
  }
  if (!launched_by_mpi()) {
    if (const std::string tasks = environment("SLURM_STEP_NUM_TASKS", "1"); tasks != "1") {
      throw UsageError("srun started " + tasks +
                       " tasks without telling MPI: use srun --mpi=pmix (or pmi2 for MPICH)");
    }
    options.progress = Progress::caller;
    return World(std::move(thread_transports(1).front()), options);
  }
  yield_when_crowded();
  ask_for_short_turns();
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  // Nobody but the engine calls MPI, one thread at a time.
  options.progress = choose_progress(options.progress, level, MPI_THREAD_SERIALIZED);
  return World(mpi_transport(MPI_COMM_WORLD), options, [] { MPI_Finalize(); });
}

World adopt(MPI_Comm comm, WorldOptions options) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    throw UsageError(
        finalized != 0
            ? "MPI is finalized already: no world can be made"
            : "MPI is not initialized: call MPI_Init_thread first, or use World::join()");
  }
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_FUNNELED) {
    throw UsageError(
        "MPI was initialized with MPI_THREAD_SINGLE (as MPI_Init does); LibTorch has threads, so "
        "Convoy "
        "needs MPI_THREAD_FUNNELED at least and MPI_THREAD_MULTIPLE for a progress thread. Call "
        "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) instead of MPI_Init");
  }
  options.progress = choose_progress(options.progress, level, MPI_THREAD_MULTIPLE);
  return World(mpi_transport(comm), options);
}

}  // namespace convoy::comm
