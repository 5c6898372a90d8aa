#include "comm/shared_memory/window.h"

#include <algorithm>

namespace convoy::comm {

Slices equal_slices(std::size_t count, std::size_t members) {
  Slices slices;
  for (std::size_t i = 0; i < members; ++i)
    slices.push_back(chunk(count, static_cast<int>(members), static_cast<int>(i)));
  return slices;
}

std::size_t longest(const Slices& slices) {
  std::size_t most = 0;
  for (const Chunk& slice : slices) most = std::max(most, slice.count);
  return most;
}

std::byte* element(std::byte* base, const Location& location, std::size_t s, std::size_t begin,
                   std::size_t at, std::size_t size, std::size_t& run) {
  if (location.kind != Location::Kind::staging) return base + (begin + at) * size;
  const std::size_t place = at % location.capacity;
  run = std::min(run, location.capacity - place);
  return base + (s * location.capacity + place) * size;
}

bool Window::claim(NodeCollective& collective, Buffer data) {
  const Location place = collective.node().locate(data.data, data.bytes());
  return collective.claim({.staging = place.kind == Location::Kind::none});
}

Window::Window(NodeCollective& collective, Buffer data, std::size_t slices)
    : board_(collective.node().board()), staging_(collective.take_staging()) {
  Node& node = collective.node();
  location_ = node.locate(data.data, data.bytes());
  if (location_.kind == Location::Kind::none && !staging_.empty()) {
    location_.kind = Location::Kind::staging;
    location_.place =
        static_cast<std::uint64_t>(staging_.data() - board_.part(board_.index()).data());
    const std::size_t elements = staging_.size() / slices / size_of(data.type);
    // Whole cache lines, where there are any.
    const std::size_t line = 64 / size_of(data.type);
    location_.capacity = elements >= line ? elements / line * line : elements;
  }
  base_ = node.reach(node.index(), location_);
}

Window::~Window() {
  if (!staging_.empty()) board_.give_staging(staging_);
}

}  // namespace convoy::comm
