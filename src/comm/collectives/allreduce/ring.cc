#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/tree/stream.h"

namespace convoy::comm {

// The tree with one child per rank is the chain 0, 1, .. p-1.
Task allreduce_ring(Io& io, Buffer data, ReduceOp op, Pipeline pipeline) {
  return tree_stream(io, data, op, 1, pipeline);
}

}  // namespace convoy::comm
