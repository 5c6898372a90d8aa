// Copies among the ranks of one host: allgather and broadcast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/shared_memory/windowed_collective.h"

namespace convoy::comm {

// Every rank has a slice of the buffer, which all others copy from it: out of its memory, or out of
// its staging block where they can't reach it. The slices of the other ranks read (S·(p-1)/p for an
// allgather, S for a broadcast), the own slice copied once more where it is staged.
class SharedSpread final : public WindowedCollective {
 public:
  // `slices` by member; they don't overlap. An allgather: equal_slices(). A broadcast: all of it
  // for the root, nothing for the others. `turn` as NodeCollective's.
  SharedSpread(Node& node, const Call& call, std::uint64_t id, Buffer data, Slices slices,
               const Board::Turn* turn = nullptr);

 private:
  std::size_t staged_slices() const override { return 1; }
  void begin() override;
  bool copy_in() override;
  bool exchange() override;
  bool complete() const override;
  std::size_t own_length() const { return slices_[collective_.node().index()].count; }

  std::size_t copied_in_ = 0, copied_ = 0;
};

}  // namespace convoy::comm
