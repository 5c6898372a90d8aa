#include <utility>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/ring/stream.h"
#include "comm/collectives/tree/stream.h"
#include "comm/topology/tree.h"

namespace convoy::comm {

int AllreduceChoice::colors_among(int ranks) const {
  if (algorithm != AllreduceAlgorithm::multicolor && algorithm != AllreduceAlgorithm::hierarchical)
    return 0;
  if (colors == kChosenColors) return choose_colors(ranks);
  return colors == kColorPerRank ? ranks : colors;
}

// The tree with one child per rank is the chain 0, 1, .. p-1.
Task allreduce_ring(Io& io, Buffer data, ReduceOp op, Pipeline pipeline) {
  return tree_stream(io, data, op, 1, pipeline);
}

Task allreduce_ring_rsag(Io& io, Buffer data, ReduceOp op, Pipeline pipeline) {
  return ring_stream(io, data, op, RingPhases::both, pipeline);
}

Task allreduce_multicolor(Io& io, Buffer data, ReduceOp op, int colors, Pipeline pipeline) {
  return tree_stream(io, data, op, colors, pipeline);
}

Task allreduce(Io& io, const Locality& locality, const Call& call, Buffer data, ReduceOp op,
               const AllreduceChoice& choice, Turn turn) {
  switch (choice.algorithm) {
    case AllreduceAlgorithm::naive:
      return allreduce_naive(io, data, op);
    case AllreduceAlgorithm::recursive_doubling:
      return allreduce_recursive_doubling(io, data, op);
    case AllreduceAlgorithm::ring:
      return allreduce_ring(io, data, op, choice.pipeline);
    case AllreduceAlgorithm::ring_rsag:
      return allreduce_ring_rsag(io, data, op, choice.pipeline);
    case AllreduceAlgorithm::multicolor:
      return allreduce_multicolor(io, data, op, choice.colors_among(io.size()), choice.pipeline);
    case AllreduceAlgorithm::shared:
      return allreduce_shared(*locality.node, call, data, op);
    case AllreduceAlgorithm::hierarchical:
      return allreduce_hierarchical(io, locality, call, data, op, choice, std::move(turn));
    case AllreduceAlgorithm::mpi:  // whoever allows it in a selection takes care of it
      break;
  }
  return {};  // not reached
}

}  // namespace convoy::comm
