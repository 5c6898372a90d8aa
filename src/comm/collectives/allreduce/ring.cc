#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/ring/stream.h"

namespace convoy::comm {

Task allreduce_ring(Io& io, Buffer data, ReduceOp op) {
  co_await ring_stream(io, data, op, RingPhases::both);
}

}  // namespace convoy::comm
