// This says in which order an epoch visits its samples, and which rank gets which of them.
//
// An epoch is one order of all samples. Training consumes it from the front in global batches of
// consecutive positions, and each rank takes its contiguous, even share of every global batch. What
// has been consumed is therefore always a prefix of the order, the same at any world size: an epoch
// that stopped after n samples on 4 ranks goes on from position n on 3, and every sample is seen
// exactly once.
//
// Pure functions of (count, seed, epoch, consumed, rank, world): no communication, no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace convoy::data {

// These are the positions begin .. end-1.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

// Gives the rank's part of a range that is cut into `world` consecutive parts whose sizes differ by
// at most one, the larger ones first. Empty for the last ranks when the range holds fewer positions
// than ranks. Throws UsageError unless 0 <= rank < world.
Range even_share(Range range, int rank, int world);

// Does the same with parts of at least `least` positions, which it shares out among the first
// ranks: as many as that is enough for, and at least one. A range of fewer than `least` is rank
// 0's. least >= 1.
Range even_share(Range range, int rank, int world, std::size_t least);

// This is the order of one epoch. Immutable, so any thread may read it; 8 bytes a sample when
// shuffled.
class EpochOrder {
 public:
  // Makes an order of all of 0 .. count-1: shuffled as (seed, epoch) say, or ascending.
  EpochOrder(std::size_t count, std::uint64_t seed, std::uint64_t epoch, bool shuffle = true);
  // Makes the same epoch for whoever goes on when these positions are consumed (ascending,
  // disjoint, none beyond count): their samples come first, then the others, each in the epoch's
  // order.
  EpochOrder(std::size_t count, std::uint64_t seed, std::uint64_t epoch, bool shuffle,
             const std::vector<Range>& consumed);

  std::size_t size() const { return count_; }
  // Gives the sample at a position. position < size().
  std::size_t operator[](std::size_t position) const {
    return order_.empty() ? position : order_[position];
  }
  // Gives the samples at these positions. range.end <= size().
  std::vector<std::size_t> samples(Range range) const;

 private:
  std::size_t count_;
  std::vector<std::size_t> order_;  // empty when not shuffled
};

// Says where consuming `more` of the other positions, from the front, leads from these (ascending,
// disjoint, of `count`). Neighbors become one range.
std::vector<Range> consumed_further(const std::vector<Range>& consumed, std::size_t more,
                                    std::size_t count);

// Gives the global batch of which each rank of a world gets local_batch. Saturates: "everything at
// once" is a legal batch size. Throws UsageError when local_batch is 0.
std::size_t global_batch(std::size_t local_batch, int world);

// Walks one epoch in global batches as one rank sees it. All ranks must ask for the same sequence
// of batch sizes; nothing checks that here. Not thread-safe.
class EpochCursor {
 public:
  // Starts after the first `consumed` of `count` positions. With drop_last, a last global batch
  // that is not full belongs to nobody; otherwise it is shared out as evenly as possible. Throws
  // UsageError unless consumed <= count and 0 <= rank < world.
  EpochCursor(std::size_t count, std::size_t consumed, int rank, int world, bool drop_last = false);

  // Gives this rank's even share of the next global batch, of `batch` positions: fewer (perhaps
  // none) of the last one, none from then on. Moves on by the whole global batch. `batch` need not
  // be a multiple of the world's size. Throws UsageError when it is 0, as the others do.
  Range next(std::size_t batch);

  // Gives what all ranks together have been given, counted from the start of the epoch, with what
  // drop_last dropped: equal on every rank.
  std::size_t consumed() const { return consumed_; }
  bool done() const { return consumed_ == count_; }

  // Gives what consumed() is after `steps` more calls of next(batch).
  std::size_t consumed_after(std::size_t steps, std::size_t batch) const;
  // Says how many more calls of next(batch) give some rank something.
  std::size_t steps_left(std::size_t batch) const;

 private:
  std::size_t count_;
  std::size_t consumed_;
  int rank_;
  int world_;
  bool drop_last_;
};

}  // namespace convoy::data
