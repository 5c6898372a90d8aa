#include "data/store/order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/data/store_source.h"

namespace convoy::data {
namespace {

// Streams of their own, beside those of permutation() and of augmentation.
constexpr std::uint64_t kOfMembers = 0x6d656d62657273, kOfTails = 0x7461696c73;

}  // namespace

void check_position(std::size_t count, const Position& position) {
  std::size_t end = 0;
  for (const Range& range : position.consumed) {
    if (range.begin != end || range.end < range.begin)
      throw UsageError("a position with gaps; the order of a store is consumed from its begin");
    end = range.end;
  }
  if (end > count) {
    throw UsageError("a position after " + std::to_string(end) + " samples of " +
                     std::to_string(count) + ": was it saved with another data set?");
  }
  if (position.consumed.size() > position.generation + 1) {
    throw UsageError("a position after " + std::to_string(position.consumed.size() - 1) +
                     " shuffles in its epoch, but of generation " +
                     std::to_string(position.generation));
  }
}

std::vector<std::size_t> store_order(std::size_t count, std::uint64_t seed,
                                     const Position& position) {
  check_position(count, position);
  const std::size_t shuffles = std::max<std::size_t>(position.consumed.size(), 1) - 1;
  const std::uint64_t began = position.generation - shuffles;
  std::vector<std::size_t> order = permutation(count, seed, began);
  // Fisher-Yates on each member's positions m, m + members, ....
  for (std::uint64_t m = 0; m < std::min<std::uint64_t>(position.members, count); ++m) {
    RandomStream random(seed ^ kOfMembers, position.epoch, m);
    for (std::size_t left = (count - m - 1) / position.members + 1; left > 1; --left) {
      std::swap(order[m + (left - 1) * position.members],
                order[m + random.below(left) * position.members]);
    }
  }
  for (std::size_t i = 1; i <= shuffles; ++i) {
    const std::size_t first = position.consumed[i].begin;
    RandomStream random(seed ^ kOfTails, began + i);
    for (std::size_t left = count - first; left > 1; --left)
      std::swap(order[first + left - 1], order[first + random.below(left)]);
  }
  return order;
}

}  // namespace convoy::data
