// Copies among the ranks of one host: allgather and broadcast.
#pragma once

#include <optional>

#include "comm/engine/task.h"
#include "comm/shared_memory/window.h"

namespace convoy::comm {

// Every rank has a slice of the buffer, which all others copy from it: out of its memory, or out of
// its staging block where they can't reach it. The slices of the other ranks read (S·(p-1)/p for an
// allgather, S for a broadcast), the own slice copied once more where it is staged.
class SharedSpread final : public Waiting {
 public:
  // `slices` by member; they don't overlap. An allgather: equal_slices(). A broadcast: all of it
  // for the root, nothing for the others. `turn` as NodeCollective's.
  SharedSpread(Node& node, const Call& call, std::uint64_t id, Buffer data, Slices slices,
               const Board::Turn* turn = nullptr);

  bool advance() override;
  bool done() const override { return done_; }
  void missing(std::vector<int>& ranks) const override;

 private:
  bool begin();
  bool copy_in();
  bool copy_from_others();
  bool finish();
  std::size_t own_length() const { return slices_[collective_.node().index()].count; }

  NodeCollective collective_;
  Buffer data_;
  Slices slices_;
  std::size_t length_;
  std::optional<Window> window_;
  std::vector<std::byte*> reach_;
  std::size_t copied_in_ = 0, copied_ = 0;
  bool done_ = false;
};

}  // namespace convoy::comm
