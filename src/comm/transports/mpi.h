// The transport over MPI point-to-point messages.
#pragma once

#include <mpi.h>

#include <memory>

#include "convoy/comm/transport.h"

namespace convoy::comm {

// Whether this MPI's tags are large enough.
bool mpi_tags_suffice();

// Whether a transport carries the notes of a watch, which takes a communicator more.
enum class Notes : bool { no, yes };

// Over the ranks of `comm`, on communicators of its own; collective. Calls MPI at any thread level,
// one call at a time. Throws UsageError when this MPI's tags are too small.
std::unique_ptr<Transport> mpi_transport(MPI_Comm comm, Notes notes = Notes::yes);

// Whether a transport may be used from any thread, at any time: not over MPI below
// MPI_THREAD_MULTIPLE.
bool any_thread_may_call(const Transport& transport);

}  // namespace convoy::comm
