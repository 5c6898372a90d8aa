// The algorithms of allreduce. Each reduces `data` in place and leaves the same bits on every rank.
// The Io, node and locality outlive the task.
#pragma once

#include <algorithm>
#include <memory>

#include "comm/collectives/allreduce/choice.h"
#include "comm/collectives/pipeline.h"
#include "comm/engine/io.h"
#include "comm/engine/task.h"
#include "comm/kernels/reduce.h"
#include "comm/shared_memory/locality.h"

namespace convoy::comm {

// Everything to rank 0, summed there in the order of ranks, and back: the reference for tests.
// Rank 0 receives and sends (p-1)·S. In blocks of most_elements(); memory, on rank 0: a block.
Task allreduce_naive(Io& io, Buffer data, ReduceOp op);

// log2 p exchanges of the whole buffer with partners at doubling distance; ranks beyond the largest
// power of two hand their data to a neighbor first. Lowest latency; S·ceil(log2 p) sent. In blocks
// of most_elements(), one after the other; memory: a block.
Task allreduce_recursive_doubling(Io& io, Buffer data, ReduceOp op);

// The paper's ring: segments are summed from rank to rank towards rank 0 and go back the other way.
// 2·S sent, rank 0 and the last one S; 2·(p-1) steps. Memory: a few segments.
Task allreduce_ring(Io& io, Buffer data, ReduceOp op, Pipeline pipeline = {});

// Reduce-scatter and allgather around a ring, in segments that follow each other through both
// phases. 2·S·(p-1)/p sent, the least possible; 2·(p-1) steps. Memory: a few segments.
Task allreduce_ring_rsag(Io& io, Buffer data, ReduceOp op, Pipeline pipeline = {});

// The paper's multi-color algorithm: k chunks, each summed along a tree of its own and broadcast
// from that tree's root, all at once (tree_stream()). At most 2·S sent where interiors are disjoint
// (see topology/tree.h); about 2·log_k p steps. With k = p, which makes every rank the root of one
// star, this is a direct reduce-scatter and allgather: 2·S·(p-1)/p sent in 2 steps. Memory: a few
// segments per child.
Task allreduce_multicolor(Io& io, Buffer data, ReduceOp op, int colors, Pipeline pipeline = {});

// Ranks of one host, without messages: each reduces its slice straight out of the others' memory
// and writes the result straight back (SharedReduction); small buffers are reduced by every rank
// for itself (SmallReduction). `reduce` gets their parts in the order of ranks, which is the order
// of summation.
Task allreduce_shared(Node& node, Call call, Buffer data, ReduceOp op, Reduce reduce = reduce_all);

// The allreduce of the MPI library below, which blocks and lets nothing else advance meanwhile, and
// to which a call of every rank comes in the same order: rank 0 of the world, which is one of
// these, waits until all ranks have made theirs, and then lets one operation begin after the other.
// REQUIRES: the group is all of the world, and MPI has the type (mpi_has()).
Task allreduce_mpi(Io& io, Buffer data, ReduceOp op);
bool mpi_has(Type type);

// The turn of an operation in its host's memory; null where that is not used, or used once.
using Turn = std::shared_ptr<const Board::Turn>;
// REQUIRES: ranks share memory. To be called in the order in which operations begin, as what takes
// a turn by itself.
Turn take_turn(const Locality& locality);

// Hosts with the same number L of ranks: each rank reduces its slice among its host's ranks, then
// with the ranks that have the same place on the other hosts (multicolor), and the host's ranks
// copy each other's slices. Each host sends 2·S·(h-1)/h at least, for h hosts, once instead of L
// times. Takes a turn, unless it is a part of an operation that has one.
Task allreduce_hierarchical(Io& io, const Locality& locality, Call call, Buffer data, ReduceOp op,
                            AllreduceChoice choice, Turn turn = nullptr);

// The algorithm that `choice` names. To be called in the order in which operations begin or, as a
// part of one, with its turn.
Task allreduce(Io& io, const Locality& locality, const Call& call, Buffer data, ReduceOp op,
               const AllreduceChoice& choice, Turn turn = nullptr);

// Elements of a block, for algorithms that send a buffer as it is: what fits a message, and at most
// 16 MiB, since each block takes memory and blocks that long take no longer than larger ones.
inline std::size_t most_elements(const Io& io, Type type) {
  return std::min(io.most_bytes(), std::size_t{16} << 20) / size_of(type);
}

// The number that a reduction's result is divided by.
inline int divisor_of(ReduceOp op, int ranks) { return op == ReduceOp::average ? ranks : 1; }

}  // namespace convoy::comm
