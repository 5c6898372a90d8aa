#include "comm/collectives/allreduce/allreduce.h"
#include "comm/topology/tree.h"

namespace convoy::comm {

int AllreduceChoice::colors_among(int ranks) const {
  if (algorithm != AllreduceAlgorithm::multicolor) return 0;
  if (colors == kChosenColors) return choose_colors(ranks);
  return colors == kColorPerRank ? ranks : colors;
}

Task allreduce(Io& io, Buffer data, ReduceOp op, const AllreduceChoice& choice) {
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
  }
  return {};  // not reached
}

}  // namespace convoy::comm
