// The functions of MPI that this library takes over; exports.map lists them.
//
// Both names of each: Fortran's bindings call the one or the other (Open MPI's PMPI_Allreduce,
// MPICH's MPI_Allreduce), after they have translated their arguments. So Fortran needs nothing of
// its own here, and a profiling tool in front of this library gets Convoy behind its own function.
#include <mpi.h>

#include <cstdint>
#include <exception>

#include "convoy/base/error.h"
#include "preload/library.h"
#include "preload/presence.h"
#include "preload/process.h"

namespace convoy::preload {
namespace {

int allreduce(const Arguments& a) {
  Process* process = a.comm == MPI_COMM_NULL ? nullptr : Process::current();
  if (process != nullptr) {
    Counterpart* counterpart = nullptr;
    try {
      counterpart = process->counterpart(a.comm);
      const auto outcome = counterpart != nullptr ? counterpart->allreduce(a) : Outcome::left;
      process->count(outcome, a);
      if (outcome == Outcome::taken) return MPI_SUCCESS;
    } catch (const std::exception& e) {
      // A call that has failed halfway leaves messages under way from and to the program's buffer,
      // and peers without theirs. So the job ends, whatever the communicator's error handler.
      const bool reported = counterpart != nullptr && counterpart->has_reported();
      end_job(reported ? "" : e.what(), kExitFailure);
    }
  }
  return Library::get().allreduce(a.send, a.receive, a.count, a.type, a.op, a.comm);
}

// Announces this process while MPI is initialized, and begins once it has been.
template <class Init>
int initialize(Init init) {
  const bool ours = is_our_kind_of_mpi();
  if (ours) begin_to_announce();
  const int error = init();
  end_announcing();
  if (!ours || error != MPI_SUCCESS) return error;
  try {
    Process::begin();
  } catch (const std::exception& e) {
    end_job(e.what(), kExitFailure);
  }
  return error;
}

int init_single(int* argc, char*** argv) {
  return initialize([&] { return Library::get().init(argc, argv); });
}

int init_thread(int* argc, char*** argv, int required, int* provided) {
  return initialize([&] { return Library::get().init_thread(argc, argv, required, provided); });
}

// With `next`, MPI's own function.
int release(MPI_Comm* comm, int (*next)(MPI_Comm*)) {
  if (comm == nullptr || Process::current() == nullptr) return next(comm);
  const BeingFreed mark(*comm);
  return next(comm);
}

int comm_free(MPI_Comm* comm) { return release(comm, Library::get().comm_free); }
int comm_disconnect(MPI_Comm* comm) { return release(comm, Library::get().comm_disconnect); }

int finalize() {
  Process::close();
  return Library::get().finalize();
}

}  // namespace
}  // namespace convoy::preload

extern "C" {

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return convoy::preload::allreduce({send, receive, count, type, op, comm});
}
int PMPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm) {
  return convoy::preload::allreduce({send, receive, count, type, op, comm});
}

int MPI_Init(int* argc, char*** argv) { return convoy::preload::init_single(argc, argv); }
int PMPI_Init(int* argc, char*** argv) { return convoy::preload::init_single(argc, argv); }
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return convoy::preload::init_thread(argc, argv, required, provided);
}
int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return convoy::preload::init_thread(argc, argv, required, provided);
}

int MPI_Comm_free(MPI_Comm* comm) { return convoy::preload::comm_free(comm); }
int PMPI_Comm_free(MPI_Comm* comm) { return convoy::preload::comm_free(comm); }
int MPI_Comm_disconnect(MPI_Comm* comm) { return convoy::preload::comm_disconnect(comm); }
int PMPI_Comm_disconnect(MPI_Comm* comm) { return convoy::preload::comm_disconnect(comm); }

int MPI_Finalize() { return convoy::preload::finalize(); }
int PMPI_Finalize() { return convoy::preload::finalize(); }

int PMIx_Put(std::uint8_t scope, const char* key, void* value) {
  return convoy::preload::note_and_put(scope, key, value);
}
int PMIx_Commit() { return convoy::preload::announce_and_commit(); }

}  // extern "C"
