#include <memory>
#include <vector>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/kernels/reduce.h"

namespace convoy::comm {

Task allreduce_naive(Io& io, Buffer data, ReduceOp op) {
  const int size = io.size();
  if (io.rank() != 0) {
    Ticket sent = io.send(0, bytes_of(ConstBuffer(data)));
    co_await one(sent);
    Ticket received = io.receive(0, bytes_of(data), 1);
    co_await one(received);
    co_return;
  }
  std::vector<std::byte> theirs(data.bytes());
  for (int rank = 1; rank < size; ++rank) {
    Ticket received = io.receive(rank, theirs);
    co_await one(received);
    reduce(op, data.type, data.data, theirs.data(), data.count);
  }
  if (op == ReduceOp::average) divide(data.type, data.data, data.count, size);
  std::vector<Ticket> sends;
  for (int rank = 1; rank < size; ++rank)
    sends.push_back(io.send(rank, bytes_of(ConstBuffer(data)), 1));
  co_await all(sends);
}

}  // namespace convoy::comm
