#include "convoy/data/epoch_order.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/even_share.h"
#include "convoy/base/random.h"

namespace convoy::data {
namespace {

void check_rank(int rank, int world) {
  if (world < 1 || rank < 0 || rank >= world) {
    throw UsageError("rank " + std::to_string(rank) + " of a world of " + std::to_string(world) +
                     ": a rank must be at least 0 and below the world's size");
  }
}

void check_batch(std::size_t batch) {
  if (batch == 0) throw UsageError("the global batch size is 0; it must be at least 1");
}

}  // namespace

Range even_share(Range range, int rank, int world) {
  check_rank(rank, world);
  const auto share =
      evenly(range.size(), static_cast<std::size_t>(world), static_cast<std::size_t>(rank));
  return {range.begin + share.begin, range.begin + share.end()};
}

Range even_share(Range range, int rank, int world, std::size_t least) {
  check_rank(rank, world);
  const std::size_t enough_for = std::max<std::size_t>(range.size() / least, 1);
  const int sharing = static_cast<int>(std::min(static_cast<std::size_t>(world), enough_for));
  if (rank >= sharing) return {range.end, range.end};
  return even_share(range, rank, sharing);
}

EpochOrder::EpochOrder(std::size_t count, std::uint64_t seed, std::uint64_t epoch, bool shuffle)
    : count_(count) {
  if (shuffle) order_ = permutation(count, seed, epoch);
}

EpochOrder::EpochOrder(std::size_t count, std::uint64_t seed, std::uint64_t epoch, bool shuffle,
                       const std::vector<Range>& consumed)
    : EpochOrder(count, seed, epoch, shuffle) {
  std::vector<std::size_t> order, rest;
  order.reserve(count);
  std::size_t at = 0;
  for (const Range& range : consumed) {
    for (; at < range.begin; ++at) rest.push_back((*this)[at]);
    for (; at < range.end; ++at) order.push_back((*this)[at]);
  }
  for (; at < count; ++at) rest.push_back((*this)[at]);
  order.insert(order.end(), rest.begin(), rest.end());
  order_ = std::move(order);
}

std::vector<Range> consumed_further(const std::vector<Range>& consumed, std::size_t more,
                                    std::size_t count) {
  std::vector<Range> result;
  const auto append = [&result](Range range) {
    if (range.empty()) return;
    if (!result.empty() && result.back().end == range.begin) {
      result.back().end = range.end;
    } else {
      result.push_back(range);
    }
  };
  std::size_t at = 0;
  const auto fill = [&](std::size_t end) {
    const std::size_t taken = std::min(more, end - at);
    append({at, at + taken});
    more -= taken;
  };
  for (const Range& range : consumed) {
    fill(range.begin);
    append(range);
    at = range.end;
  }
  fill(count);
  return result;
}

std::vector<std::size_t> EpochOrder::samples(Range range) const {
  std::vector<std::size_t> result;
  result.reserve(range.size());
  for (std::size_t p = range.begin; p < range.end; ++p) result.push_back((*this)[p]);
  return result;
}

std::size_t global_batch(std::size_t local_batch, int world) {
  if (local_batch == 0) throw UsageError("the batch size of a rank is 0; it must be at least 1");
  const auto ranks = static_cast<std::size_t>(world);
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  return local_batch > kMost / ranks ? kMost : local_batch * ranks;
}

EpochCursor::EpochCursor(std::size_t count, std::size_t consumed, int rank, int world,
                         bool drop_last)
    : count_(count), consumed_(consumed), rank_(rank), world_(world), drop_last_(drop_last) {
  check_rank(rank, world);
  if (consumed > count) {
    throw UsageError("an epoch of " + std::to_string(count) + " samples can't go on after sample " +
                     std::to_string(consumed) + ": was it interrupted with another data set?");
  }
}

Range EpochCursor::next(std::size_t batch) {
  check_batch(batch);
  const std::size_t before = consumed_;
  const std::size_t left = count_ - before;
  consumed_ += std::min(batch, left);
  if (batch > left && drop_last_) return {count_, count_};
  return even_share({before, consumed_}, rank_, world_);
}

std::size_t EpochCursor::steps_left(std::size_t batch) const {
  check_batch(batch);
  const std::size_t left = count_ - consumed_;
  return left / batch + (left % batch != 0 && !drop_last_ ? 1 : 0);
}

std::size_t EpochCursor::consumed_after(std::size_t steps, std::size_t batch) const {
  check_batch(batch);
  const std::size_t left = count_ - consumed_;
  return steps > left / batch ? count_ : consumed_ + steps * batch;
}

}  // namespace convoy::data
