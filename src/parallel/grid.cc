#include "convoy/parallel/grid.h"

#include <algorithm>
#include <cassert>

#include "convoy/base/error.h"

namespace convoy::parallel {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;  // of a grid that is worth naming

}  // namespace

GridShape GridShape::of(std::int64_t replicas, std::int64_t partitions, int ranks, bool divides) {
  const auto text = [](std::int64_t r, std::int64_t p) {
    return std::to_string(r) + " x " + std::to_string(p);
  };
  if (partitions >= 1 && replicas >= 0) {
    const std::int64_t fit = ranks % partitions == 0 ? ranks / partitions : 0;
    if (fit > 0 && (replicas == 0 || replicas == fit))
      return {static_cast<int>(fit), static_cast<int>(partitions)};
  }
  std::string would;
  for (int p = 1; p <= (divides ? ranks : 1); ++p) {
    if (ranks % p == 0) would += (would.empty() ? "" : ", ") + text(ranks / p, p);
  }
  std::string right;
  if (partitions >= 1 && replicas >= 0 && partitions <= kMostRanks && replicas <= kMostRanks) {
    const std::string least = std::to_string(partitions * std::max<std::int64_t>(1, replicas));
    right = ": it is for " + least + (replicas == 0 ? " ranks or a multiple of them" : " ranks") +
            " (-n " + least + ")";
  }
  throw UsageError("the grid of " +
                   (replicas == 0 ? std::to_string(partitions) + " partitions per replica"
                                  : text(replicas, partitions) + " (replicas x partitions)") +
                   " doesn't have " + std::to_string(ranks) +
                   (ranks == 1 ? " place for 1 rank" : " places for as many ranks") + right +
                   "; these would: " + would + (replicas == 0 ? " (replicas x partitions)" : ""));
}

Grid::Grid(const comm::Communicator& all, GridShape shape) : shape_(shape), all_(all.duplicate()) {
  assert(shape.size() == all.size());
  partitions_ = all_.split(replica(), partition());
  replicas_ = all_.split(partition(), replica());
}

}  // namespace convoy::parallel
