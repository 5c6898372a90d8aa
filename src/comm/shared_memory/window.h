// A rank's data as the other ranks of its host reach it: in place, or through a staging block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/shared_memory/node_collective.h"
#include "convoy/comm/communicator.h"
#include "convoy/comm/types.h"

namespace convoy::comm {

// Slices of a buffer, by member. Ranks go through all slices side by side: position x stands for
// element x of each slice that is that long.
using Slices = std::vector<Chunk>;
Slices equal_slices(std::size_t count, std::size_t members);
std::size_t longest(const Slices& slices);
// The part of [from, to) that a slice has.
inline Chunk part_of(const Chunk& slice, std::size_t from, std::size_t to) {
  const std::size_t end = std::min(to, slice.count);
  return {from, end > from ? end - from : 0};
}

// Where the elements of a slice from position `at` on are, for a location reached at `base`; `run`
// is cut to what lies there in one piece. The slice is number `s` in a staging block and starts at
// element `begin` of a buffer.
std::byte* element(std::byte* base, const Location& location, std::size_t s, std::size_t begin,
                   std::size_t at, std::size_t size, std::size_t& run);

// Chooses where the own data is shown, and holds the staging block while it is needed.
class Window {
 public:
  // Takes a slot, with what is needed to show `data`; false while there is none.
  static bool claim(NodeCollective& collective, Buffer data);
  // In place where the others can reach `data`, else in a staging block, else in the slot's
  // payload. REQUIRES: claimed, with this data.
  Window(NodeCollective& collective, Buffer data, std::size_t slices);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  const Location& location() const { return location_; }
  bool in_place() const { return location_.kind != Location::Kind::staging; }
  std::byte* base() const { return base_; }
  // Positions that a staging block holds at a time, and those of one step through it.
  std::size_t capacity() const { return location_.capacity; }
  std::size_t step() const { return std::max<std::size_t>(1, location_.capacity / 4); }

 private:
  Board& board_;
  Location location_;
  std::byte* base_ = nullptr;
  std::span<std::byte> staging_;
};

}  // namespace convoy::comm
