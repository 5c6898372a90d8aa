#include "comm/collectives/allreduce/allreduce.h"

namespace convoy::comm {

Task allreduce(Io& io, Buffer data, ReduceOp op) {
  // Below this the steps cost more than the bytes.
  constexpr std::size_t kSmall = 32 << 10;
  return data.bytes() <= kSmall ? allreduce_recursive_doubling(io, data, op)
                                : allreduce_ring(io, data, op);
}

}  // namespace convoy::comm
