#include <vector>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/kernels/reduce.h"

namespace convoy::comm {

bool mpi_has(Type type) { return type != Type::f16 && type != Type::bf16; }

// Who blocks in MPI advances nothing else, so that nobody may before all have made the call. Nor
// may two ranks wait in different calls: rank 0 of the world says "go" to one operation, and to the
// next one only after that, when every rank has been in it. Without elements rank 0 would not know
// the latter: MPI may return from such a call before others have come.
Task allreduce_mpi(Io& io, Buffer data, ReduceOp op) {
  const int size = io.size();
  if (size == 1 || data.count == 0) co_return;
  const int first = io.first_of_world();
  std::vector<Ticket> tickets;
  if (io.rank() == first) {
    for (int rank = 0; rank < size; ++rank)
      if (rank != first) tickets.push_back(io.receive(rank, {}));
    co_await all(tickets);
    tickets.clear();
    for (int rank = 0; rank < size; ++rank)
      if (rank != first) tickets.push_back(io.send(rank, {}, 1));
  } else {
    tickets.push_back(io.send(first, {}));
    tickets.push_back(io.receive(first, {}, 1));
    co_await all(tickets);
    tickets.clear();
  }
  io.allreduce_below(data, op == ReduceOp::average ? ReduceOp::sum : op);
  co_await all(tickets);  // rank 0's, which the others have received
  if (op == ReduceOp::average) divide(data.type, data.data, data.count, size);
}

}  // namespace convoy::comm
