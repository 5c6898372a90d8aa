#include <utility>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/tree/stream.h"
#include "comm/kernels/reduce.h"
#include "comm/shared_memory/reduction.h"
#include "comm/shared_memory/spread.h"

namespace convoy::comm {
namespace {

Task three_phases(Io& io, const Locality& locality, Call call, std::uint64_t first,
                  std::uint64_t second, Buffer data, ReduceOp op, AllreduceChoice choice,
                  Turn turn) {
  Node& node = *locality.node;
  const auto index = static_cast<int>(node.index());
  // An average is divided once, at the end.
  const ReduceOp sum = op == ReduceOp::average ? ReduceOp::sum : op;
  const Slices slices = equal_slices(data.count, node.size());
  const Chunk own = slices[node.index()];
  const Buffer mine = slice(data, own.begin, own.count);
  {
    SharedReduction inside(node, call, first, data, sum, 1, false, reduce_all, turn.get());
    co_await end_of(inside);
  }
  Io layer = io.among(locality.map.layer(index));
  Task between = tree_stream(layer, mine, sum, choice.colors_among(layer.size()), choice.pipeline);
  co_await between;
  if (op == ReduceOp::average) divide(mine.type, mine.data, mine.count, io.size());
  SharedSpread spread(node, call, second, data, slices, turn.get());
  co_await end_of(spread);
}

}  // namespace

Turn take_turn(const Locality& locality) {
  return std::make_shared<Board::Turn>(locality.node->board());
}

Task allreduce_hierarchical(Io& io, const Locality& locality, Call call, Buffer data, ReduceOp op,
                            AllreduceChoice choice, Turn turn) {
  Board& board = locality.node->board();
  const std::uint64_t first = board.next_id(call.match);
  const std::uint64_t second = board.next_id(call.match);
  if (!turn) turn = take_turn(locality);
  return three_phases(io, locality, call, first, second, data, op, choice, std::move(turn));
}

}  // namespace convoy::comm
