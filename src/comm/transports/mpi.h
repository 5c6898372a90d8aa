// The transport over MPI point-to-point messages.
#pragma once

#include <mpi.h>

#include <memory>

#include "convoy/comm/transport.h"

namespace convoy::comm {

// Over a duplicate of `comm`; collective. Throws UsageError when this MPI's tags are too small.
std::unique_ptr<Transport> mpi_transport(MPI_Comm comm);

}  // namespace convoy::comm
