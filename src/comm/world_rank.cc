#include "comm/world_rank.h"

#include "comm/internals.h"

namespace convoy::comm {

int world_rank(const Communicator& communicator, int rank) {
  return CommunicatorInternals::transport(communicator)->world_rank(rank);
}

}  // namespace convoy::comm
