// The functions of MPI that this library takes over; exports.map lists them.
//
// Both names of each: Fortran's bindings call the one or the other (Open MPI's PMPI_Allreduce,
// MPICH's MPI_Allreduce), after they have translated their arguments. So Fortran needs nothing of
// its own here, and a profiling tool in front of this library gets Convoy behind its own function.
#include <mpi.h>

#include <exception>

#include "convoy/base/error.h"
#include "preload/library.h"
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
int MPI_Finalize() { return convoy::preload::finalize(); }
int PMPI_Finalize() { return convoy::preload::finalize(); }

}  // extern "C"
