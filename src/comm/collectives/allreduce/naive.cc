#include <algorithm>
#include <memory>
#include <vector>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/kernels/reduce.h"

namespace convoy::comm {
namespace {

Task reduce_block(Io& io, Buffer data, std::byte* theirs, ReduceOp op) {
  const int size = io.size();
  if (io.rank() != 0) {
    Ticket sent = io.send(0, bytes_of(ConstBuffer(data)));
    co_await one(sent);
    Ticket received = io.receive(0, bytes_of(data), 1);
    co_await one(received);
    co_return;
  }
  for (int rank = 1; rank < size; ++rank) {
    Ticket received = io.receive(rank, {theirs, data.bytes()});
    co_await one(received);
    reduce(op, data.type, data.data, theirs, data.count);
  }
  if (op == ReduceOp::average) divide(data.type, data.data, data.count, size);
  std::vector<Ticket> sends;
  for (int rank = 1; rank < size; ++rank)
    sends.push_back(io.send(rank, bytes_of(ConstBuffer(data)), 1));
  co_await all(sends);
}

}  // namespace

Task allreduce_naive(Io& io, Buffer data, ReduceOp op) {
  const std::size_t most = most_elements(io, data.type);
  std::unique_ptr<std::byte[]> theirs;
  if (io.rank() == 0)
    theirs = std::make_unique_for_overwrite<std::byte[]>(std::min(most, data.count) *
                                                         size_of(data.type));
  std::size_t at = 0;
  do {  // nothing is an empty message
    const Buffer block = slice(data, at, std::min(most, data.count - at));
    Task reduction = reduce_block(io, block, theirs.get(), op);
    co_await reduction;
    at += block.count;
  } while (at < data.count);
}

}  // namespace convoy::comm
