// Who a rank is in the world.
#pragma once

#include "convoy/comm/communicator.h"

namespace convoy::comm {

// The rank in the communicator of the whole job that `rank` of this one has. Not collective.
int world_rank(const Communicator& communicator, int rank);

}  // namespace convoy::comm
