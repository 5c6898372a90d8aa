// Batches of decoded samples, made ahead of need by worker threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "convoy/base/random.h"
#include "convoy/data/portions.h"
#include "convoy/data/sample_order.h"
#include "convoy/data/sample_source.h"
#include "convoy/data/transform.h"

namespace convoy::data {

enum class OnBad : std::uint8_t {
  fail,  // a record that can't be decoded ends the run with an error that names it
  skip   // it is left out of its batch, counted, and named once
};

// Gives what `transform` makes of the examples of this dataset: of the first record or, with
// OnBad::skip, of the first that can be transformed, as far as its header says. Throws UsageError
// naming the record.
Shape output_shape(const Dataset& dataset, const TransformOptions& transform, OnBad on_bad);

// Says whether `channels` of 0 turns color into gray, because the first picture happens to be gray:
// "KEY, the first picture, is gray, and KEY is in color"; empty if not. It looks at a few dozen
// files of pictures, evenly spread, and passes over those that can't be read.
std::string color_made_gray(const Dataset& dataset);

// Gives the random choices about one sample in one epoch: nothing else decides them.
inline RandomStream sample_stream(std::uint64_t seed, std::uint64_t epoch, std::size_t sample) {
  return RandomStream(seed, epoch, sample + 1);  // (seed, epoch, 0) shuffles
}

struct LoaderOptions {
  std::size_t batch = 1;  // global: of all ranks together
  int rank = 0;
  int world = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;  // another order each epoch, fixed by (seed, epoch)
  // A rank that gets samples of a global batch gets at least so many, where the batch has them: a
  // network may have no use for one alone (statistics of batch normalization). Other ranks then get
  // none.
  std::size_t least_share = 1;
  // This rank's shares are empty: it goes through the same batches as the others, and reads
  // nothing.
  bool nothing = false;
  // Says which samples this rank gets; null: a StaticOrder of the above.
  std::shared_ptr<SampleOrder> order;
  // Batches are of these parts of epochs, in the place of whole ones: next() waits while there is
  // none, returns no null, and position() and what is left of an epoch mean nothing. Without
  // `order`, `cost` and drop_last. After seek() nothing is prepared of what was.
  std::shared_ptr<Portions> portions;
  bool drop_last = false;  // leave out a last global batch that is not full
  Layout layout = Layout::planar;
  int threads = 1;        // workers that decode; at least 1
  std::size_t ahead = 2;  // batches to prepare ahead
  OnBad on_bad = OnBad::fail;
  // Records as they are stored (Batch::records) instead of images; the transform isn't used.
  bool raw = false;
  // This is what a sample counts in `batch`; empty: 1. With it, a batch takes samples in the
  // epoch's order until one more would be too much, and at least one, and shares are cut where they
  // count about the same. For raw records, without `order`, drop_last and least_share. Called for
  // every sample, by the constructor.
  std::function<std::uint64_t(std::size_t sample)> cost;
  // Is told about each skipped record, from a worker thread; may be empty.
  std::function<void(const std::string& message)> on_skip;
  // Gives the memory of a batch's images, of so many bytes and aligned to 64, for the loader to
  // keep (memory from which a device copies by itself, say). Empty: ordinary memory. Called by the
  // constructor, once for each batch that can be prepared, and not for raw records.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> memory;
};

// This is a static SampleSource over a dataset: the samples of an epoch, cut into global batches,
// of which each rank takes its share as the order says (EpochOrder and even shares, by default).
// Random choices of the transform depend on (seed, epoch, sample) alone, never on rank, world or
// thread: an epoch resumed at another world size sees the same pixels.
//
// Batch memory is made once: `ahead` + 2 batches of this rank's largest share. Construction reads
// the first record for its shape (with OnBad::skip the first good one) and throws UsageError for
// options that don't fit the data; the workers begin with the first next(). A bad record with
// OnBad::fail surfaces in the next() that would have returned its batch, naming Dataset::key, and
// in every next() from then on until a seek(). A record that can't be read (Failure) always does,
// and so does what the order throws.
// Destruction stops the workers.
//
// position() at the end of an epoch: after its last batch, all of it is consumed, with what
// drop_last leaves out (a seek() there makes the next next() return null); after the null, it is
// the start of the next epoch.
class Loader final : public SampleSource {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
         const LoaderOptions& options);
  ~Loader() override;

  std::size_t size() const override;
  std::size_t batches_per_epoch() const override;
  std::size_t batches_left() const override;
  Shape shape() const override;
  void seek(const Position& position) override;
  const Batch* next() override;
  const Batch* upcoming() override;
  Position position() const override;
  bool epoch_over() const override;
  SourceStatistics statistics() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::data
