// Which ranks have this library. One without it does nothing for Convoy: where Convoy would begin
// to talk to it, it is in a call of the program's, and the two would meet. So ranks find out
// without talking, from the keys that a launcher keeps for the processes of a job until they have
// all been initialized: PMIx's (Open MPI, Slurm), and PMI-1's of Hydra (MPICH).
#pragma once

#include <cstdint>
#include <optional>

namespace convoy::preload {

// Tells the launcher that this process has the library. MPI_Init calls the first before MPI is
// initialized and the last afterwards; PMIx_Put and PMIx_Commit, which MPI calls in between, call
// the second and the third, which give back what the real ones do.
void begin_to_announce();
int note_and_put(std::uint8_t scope, const char* key, void* value);
int announce_and_commit();
void end_announcing();

// A rank of MPI_COMM_WORLD that has not told so.
struct Absence {
  int rank = 0;
  bool is_ours_to_say = false;  // this is the first of the ranks that know
};

// None if all ranks have told, or if this launcher keeps no keys: then ranks have to believe it.
// Every rank finds some, or none does. Within MPI_Init, after MPI has been initialized. Throws
// Failure when the launcher doesn't answer in half a minute: then no rank may go on.
std::optional<Absence> find_absent();

}  // namespace convoy::preload
