#include <algorithm>
#include <vector>

#include "comm/collectives/broadcast/broadcast.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {
namespace {

constexpr std::size_t kSegmentBytes = 256 << 10;

// Ranks counted from the root: v's parent is v without its lowest bit, its children are v plus each
// power of two below that bit.
std::vector<int> children(int v, int size) {
  std::vector<int> result;
  for (int bit = 1; v + bit < size && (v & bit) == 0; bit *= 2) result.push_back(v + bit);
  std::reverse(result.begin(), result.end());  // the child with the deepest subtree first
  return result;
}

}  // namespace

Task broadcast_binomial(Io& io, Buffer data, int root) {
  const int size = io.size();
  const int v = (io.rank() - root + size) % size;
  const auto rank_of = [&](int u) { return (u + root) % size; };
  const std::vector<int> below = children(v, size);
  const auto segments = static_cast<int>(
      std::max<std::size_t>(1, (data.bytes() + kSegmentBytes - 1) / kSegmentBytes));
  const auto segment = [&](int i) {
    const Chunk c = chunk(data.count, segments, i);
    return slice(data, c.begin, c.count);
  };

  std::vector<Ticket> receives;
  if (v != 0) {
    const int parent = rank_of(v & (v - 1));
    receives.reserve(static_cast<std::size_t>(segments));
    for (int i = 0; i < segments; ++i) receives.push_back(io.receive(parent, bytes_of(segment(i))));
  }
  std::vector<Ticket> sends;
  sends.reserve(below.size() * static_cast<std::size_t>(segments));
  for (int i = 0; i < segments; ++i) {
    if (v != 0) co_await one(receives[static_cast<std::size_t>(i)]);
    for (int u : below) sends.push_back(io.send(rank_of(u), bytes_of(ConstBuffer(segment(i)))));
  }
  co_await all(sends);
}

}  // namespace convoy::comm
