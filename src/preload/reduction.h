// What an MPI datatype and operation are in Convoy's words.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <optional>

#include "convoy/comm/types.h"

namespace convoy::preload {

struct Reduction {
  comm::Type type = comm::Type::f32;
  int elements = 1;  // of that type, in one element of MPI's: 2 for a complex number
  comm::ReduceOp op = comm::ReduceOp::sum;

  bool operator==(const Reduction&) const = default;
};

// None if Convoy has no such reduction; MPI then does it, or says what is wrong with it. Handles
// that MPI lets ranks mix in one call (MPI_INT and Fortran's MPI_INTEGER, say) give the same.
// Needs an initialized MPI.
std::optional<Reduction> understand(MPI_Datatype type, MPI_Op op);

}  // namespace convoy::preload
