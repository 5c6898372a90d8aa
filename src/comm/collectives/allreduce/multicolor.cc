#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/tree/stream.h"

namespace convoy::comm {

Task allreduce_multicolor(Io& io, Buffer data, ReduceOp op, int colors, Pipeline pipeline) {
  return tree_stream(io, data, op, colors, pipeline);
}

}  // namespace convoy::comm
