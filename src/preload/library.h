// The MPI library under this one.
#pragma once

#include <mpi.h>

#include <string>

namespace convoy::preload {

// What this library's functions of the same names stand in front of.
struct Library {
  int (*allreduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
  int (*init)(int*, char***);
  int (*init_thread)(int*, char***, int, int*);
  int (*comm_free)(MPI_Comm*);
  int (*comm_disconnect)(MPI_Comm*);
  int (*finalize)();

  static const Library& get();
};

// Whether the program's MPI is of the kind that this library was built with: handles of another
// kind have no meaning here. Says so on standard error, once per job, where it is not.
bool is_our_kind_of_mpi();

// Whether the program may hand MPI buffers in the memory of a GPU, which Convoy can't read: where
// MPI supports it, unless CONVOY_MPI_HOST_MEMORY=1 promises that it does not.
bool may_use_device_memory();

// Ends all processes of the job with this status, after a line on standard error unless the reason
// is empty.
[[noreturn]] void end_job(const std::string& reason, int status);

}  // namespace convoy::preload
