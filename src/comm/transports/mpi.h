// The transport over MPI point-to-point messages.
#pragma once

#include <mpi.h>

#include <memory>

#include "convoy/comm/transport.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

// Whether this MPI's tags are large enough.
bool mpi_tags_suffice();

// Whether a transport carries the notes of a watch, which takes a communicator more.
enum class Notes : bool { no, yes };

// The library's own allreduce over `comm`, in place; blocks. Throws UsageError for an average and
// for 16-bit floats, Failure where MPI says so.
void mpi_allreduce(MPI_Comm comm, Buffer data, ReduceOp op);

// Over the ranks of `comm`, on communicators of its own; collective. Calls MPI at any thread level,
// one call at a time. Throws UsageError when this MPI's tags are too small.
std::unique_ptr<Transport> mpi_transport(MPI_Comm comm, Notes notes = Notes::yes);

}  // namespace convoy::comm
