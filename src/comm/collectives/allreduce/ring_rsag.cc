#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/ring/stream.h"

namespace convoy::comm {

Task allreduce_ring_rsag(Io& io, Buffer data, ReduceOp op, Pipeline pipeline) {
  return ring_stream(io, data, op, RingPhases::both, pipeline);
}

}  // namespace convoy::comm
