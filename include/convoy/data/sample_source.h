// This says where a strategy gets its samples from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/data/epoch_order.h"

namespace convoy::data {

// Says how far an epoch has come, over all ranks together: what a checkpoint keeps. Any world size
// can go on from it with every other sample seen exactly once.
struct Position {
  std::uint64_t epoch = 0;       // counted from 0; with the seed it fixes the order
  std::uint64_t generation = 0;  // of the shuffle that decides who holds what; 0 without one
  // This is what of the epoch's order has been consumed; ascending, disjoint. A source with a fixed
  // order has one range that begins at 0, or none at the start, unless replicas that don't wait for
  // each other have left gaps; a store begins another range, where the last one ends, with each
  // shuffle in the middle of the epoch.
  std::vector<Range> consumed;
  // This is the number of parts of a store, where this epoch visits them once more, in another
  // order. With 0 the order is the generation's own.
  std::uint64_t members = 0;
  bool operator==(const Position&) const = default;

  // Counts the samples in `consumed`.
  std::size_t count() const;
};

enum class Layout : std::uint8_t { planar, channels_last };

// This is what a batch is made of. bf16: the upper half of a float.
enum class Pixel : std::uint8_t { f32, bf16, u8 };
constexpr std::size_t size_of(Pixel pixel) {
  return pixel == Pixel::f32 ? 4 : pixel == Pixel::bf16 ? 2 : 1;
}

// This is a rank's share of one global batch.
struct Batch {
  // size() * views images of `shape` one after another, each [C][H][W] or [H][W][C] as `layout`
  // says, of `pixel`s; the views of a sample are neighbors.
  std::span<std::byte> bytes;
  std::span<float> images;  // the same memory where pixel is f32, else empty
  // These are the bytes of each sample as they are stored, instead of images, where the source was
  // asked for that.
  std::span<const std::vector<std::byte>> records;
  std::span<const std::int64_t> labels;
  // These are all labels of each sample, where the data set has lists of them
  // (Dataset::label_lists); else empty: each has the one in `labels`.
  std::span<const std::vector<std::int64_t>> label_lists;
  std::span<const std::size_t> samples;  // their numbers in the data set
  Shape shape;
  Layout layout = Layout::planar;
  Pixel pixel = Pixel::f32;
  int views = 1;  // images per sample (Crop::ten)
  // Tells batches of a source apart: each that it makes has a number of its own, as upcoming() and
  // as next() give it. 0: the source doesn't number them.
  std::uint64_t number = 0;

  std::size_t size() const { return samples.size(); }
};

struct SourceStatistics {
  double wait_s = 0;    // next() waited for a batch that was not ready
  double decode_s = 0;  // of all worker threads together
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t skipped = 0;  // bad records left out (see LoaderOptions::on_bad)
  std::size_t ready = 0;      // batches waiting now
};

// Batches, epoch by epoch. Assigned statically (Loader), or by a coordinator. One thread at a time.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Counts the samples of an epoch, over all ranks.
  virtual std::size_t size() const = 0;
  // Counts the global batches in a whole epoch; where they are cut by what samples count, in the
  // first.
  virtual std::size_t batches_per_epoch() const = 0;
  // Counts the global batches of this epoch after the one last returned; 0 where the epoch is over.
  virtual std::size_t batches_left() const = 0;
  virtual Shape shape() const = 0;

  // Makes the next call of next() begin here.
  virtual void seek(const Position& position) = 0;

  // Gives this rank's share of the next global batch, or null when the epoch is over; the call
  // after that begins the next epoch. Every rank gets the same number of batches; a share may be
  // empty (the last batch of an epoch holds fewer samples than there are ranks, or bad records were
  // skipped). The memory is valid until the next call of next() or seek(), and may be written to.
  // Throws Failure or UsageError for data that can't be used.
  virtual const Batch* next() = 0;
  // Gives the batch that the next call of next() is going to return, where it is made by now: to
  // bring it to a device beside other work. Null where it isn't, where that call ends an epoch, and
  // from sources that can't tell. Doesn't wait. What it gives is valid until that call; the memory
  // of the batch also as long as next() says, unless seek() is called before.
  virtual const Batch* upcoming() { return nullptr; }

  // Says where training is once the batch last returned is done with: epoch and what is consumed,
  // without what was only prepared. At the end of an epoch all of it counts as consumed, with what
  // the source leaves out of it.
  virtual Position position() const = 0;
  // Says whether the batch last returned ends its epoch, so that the next call of next() returns
  // null; also after a seek() to where nothing of an epoch is left. The same on every rank.
  virtual bool epoch_over() const = 0;

  virtual SourceStatistics statistics() const = 0;
};

}  // namespace convoy::data
