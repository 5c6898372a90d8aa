// Worlds inside a program that uses MPI itself. The only public header that includes <mpi.h>.
#pragma once

#include <mpi.h>

#include "convoy/comm/world.h"

namespace convoy::comm {

// Makes a world over the ranks of `comm`, on communicators of its own: the caller's messages and
// Convoy's never meet, and the caller goes on owning `comm` and MPI (Convoy will not finalize it).
// Collective over `comm`.
//
// Thread level: Progress::thread needs MPI_THREAD_MULTIPLE, since Convoy then calls MPI beside the
// program. Progress::caller works from MPI_THREAD_FUNNELED on, if all calls into Convoy come from
// the thread that initialized MPI (with MPI_THREAD_SERIALIZED: one thread at a time).
// Progress::automatic takes the thread only if the level allows it. A level too low is a UsageError
// that says what to do.
World adopt(MPI_Comm comm, WorldOptions options = {});

}  // namespace convoy::comm
