#include "comm/collectives/allreduce/allreduce.h"
#include "comm/shared_memory/reduction.h"
#include "comm/shared_memory/small_reduction.h"

namespace convoy::comm {
namespace {

Task small(Node& node, Call call, std::uint64_t id, Buffer data, ReduceOp op, Reduce reduce) {
  SmallReduction reduction(node, call, id, data, op, divisor_of(op, static_cast<int>(node.size())),
                           reduce);
  co_await end_of(reduction);
}

Task large(Node& node, Call call, std::uint64_t id, Buffer data, ReduceOp op, Reduce reduce) {
  SharedReduction reduction(node, call, id, data, op, divisor_of(op, static_cast<int>(node.size())),
                            true, reduce);
  co_await end_of(reduction);
}

}  // namespace

Task allreduce_shared(Node& node, Call call, Buffer data, ReduceOp op, Reduce reduce) {
  const std::uint64_t id = node.board().next_id(call.match);
  return data.bytes() <= Board::kPayload ? small(node, call, id, data, op, reduce)
                                         : large(node, call, id, data, op, reduce);
}

}  // namespace convoy::comm
