// What reductions and copies of large buffers among the ranks of one host have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/engine/task.h"
#include "comm/shared_memory/window.h"

namespace convoy::comm {

// Every rank shows its buffer through a window, reaches those of the others when all are there, and
// goes through the positions of all slices (see Slices).
class WindowedCollective : public Waiting {
 public:
  bool advance() final;
  bool done() const final { return done_; }
  void missing(std::vector<int>& ranks) const final;

 protected:
  // `slices` by member; they don't overlap. `turn` as NodeCollective's.
  WindowedCollective(Node& node, const Call& call, std::uint64_t id, Buffer data, Slices slices,
                     const Board::Turn* turn);

  NodeCollective collective_;
  Buffer data_;
  Slices slices_;
  std::size_t length_;             // positions
  std::optional<Window> window_;   // once there is a slot, until the end
  std::vector<std::byte*> reach_;  // by member, once all are there

 private:
  // So many slices share a staging block.
  virtual std::size_t staged_slices() const = 0;
  // The window is there. What the slot says is set before others see it.
  virtual void begin() = 0;
  // Into the own staging block, and when all are there, the rest: one step each. True if anything
  // moved.
  virtual bool copy_in() = 0;
  virtual bool exchange() = 0;
  // Whether this rank has all, and the others have what they need of it.
  virtual bool complete() const = 0;

  bool show();

  bool done_ = false;
};

}  // namespace convoy::comm
