// Reductions of small buffers among the ranks of one host.
#pragma once

#include "comm/engine/task.h"
#include "comm/kernels/reduce.h"
#include "comm/shared_memory/node_collective.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

// Every rank shows its data in its slot, and reduces everybody's by itself, in the order of ranks:
// one step. S written, (p-1)·S read. An empty buffer makes it a barrier. Data of up to
// Board::kPayload bytes.
class SmallReduction final : public Waiting {
 public:
  // The result is divided by `divisor`.
  SmallReduction(Node& node, const Call& call, std::uint64_t id, Buffer data, ReduceOp op,
                 int divisor, Reduce reduce = reduce_all);

  bool advance() override;
  bool done() const override { return done_; }
  void missing(std::vector<int>& ranks) const override;

 private:
  bool begin();

  NodeCollective collective_;
  Buffer data_;
  ReduceOp op_;
  int divisor_;
  Reduce reduce_;
  bool begun_ = false;
  bool done_ = false;
};

}  // namespace convoy::comm
