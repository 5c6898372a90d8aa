// The algorithms of allreduce. Each reduces `data` in place and leaves the same bits on every rank.
#pragma once

#include "comm/io.h"
#include "comm/task.h"

namespace convoy::comm {

// Everything to rank 0, summed there in the order of ranks, and back: the reference for tests.
// Rank 0 receives and sends (p-1)·S; memory (p-1)·S on rank 0.
Task allreduce_naive(Io& io, Buffer data, ReduceOp op);

// log2 p exchanges of the whole buffer with partners at doubling distance; ranks beyond the largest
// power of two hand their data to a neighbor first. Lowest latency; S·ceil(log2 p) sent. Memory S.
Task allreduce_recursive_doubling(Io& io, Buffer data, ReduceOp op);

// Reduce-scatter and allgather around a ring, in segments that follow each other through both
// phases. 2·S·(p-1)/p sent, the least possible; 2·(p-1) steps. Memory: a few segments.
Task allreduce_ring(Io& io, Buffer data, ReduceOp op);

// The choice among them, which depends only on what all ranks agree on.
Task allreduce(Io& io, Buffer data, ReduceOp op);

}  // namespace convoy::comm
