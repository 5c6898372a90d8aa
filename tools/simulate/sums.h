// What additions cost.
#pragma once

#include <smpi/smpi.h>

namespace convoy::simulate {

// How the additions on a host are simulated; the host carries a pointer to it (Host::set_data).
// They take simulated time by the host's speed, in bytes per second.
struct Sums {
  bool free = false;  // they take no time
  bool real = true;   // they are done; otherwise only their time passes
};

// An MPI_SUM of MPI_FLOAT that costs as much as Convoy's. To be freed by the caller.
MPI_Op priced_sum();

}  // namespace convoy::simulate
