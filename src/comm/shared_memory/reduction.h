// Reductions of large buffers among the ranks of one host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/kernels/reduce.h"
#include "comm/shared_memory/windowed_collective.h"

namespace convoy::comm {

// Rank r reduces slice r, in the order of ranks, straight out of the others' memory, and, for an
// allreduce, writes the result straight back into it. Where the others can't reach a rank's buffer,
// it passes through that rank's staging block, which is small enough to stay in the cache.
// S·(p-1)/p read and as much written by each rank in the memory of others; as much again copied
// into and out of the staging block where there is one.
class SharedReduction final : public WindowedCollective {
 public:
  // Slices of chunk(count, members, r). Without `everywhere` only the own slice is defined at the
  // end. The result is divided by `divisor`. `reduce` reduces a block, the ranks' parts in their
  // order. `turn` as NodeCollective's.
  SharedReduction(Node& node, const Call& call, std::uint64_t id, Buffer data, ReduceOp op,
                  int divisor, bool everywhere, Reduce reduce = reduce_all,
                  const Board::Turn* turn = nullptr);

 private:
  std::size_t staged_slices() const override { return slices_.size(); }
  void begin() override;
  bool copy_in() override;
  bool exchange() override;
  bool complete() const override;
  bool reduce_block();
  bool copy_out();

  ReduceOp op_;
  int divisor_;
  bool everywhere_;
  Reduce reduce_;
  std::vector<const void*> sources_;  // of the block in work
  std::size_t copied_in_ = 0, reduced_ = 0, copied_out_ = 0;
};

}  // namespace convoy::comm
