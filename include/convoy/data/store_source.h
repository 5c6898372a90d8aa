// Batches from a store: each rank draws them from the records that it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "convoy/data/loader.h"
#include "convoy/data/sample_source.h"
#include "convoy/data/store.h"

namespace convoy::data {

// Gives the order of the epoch that this position is in, over `count` samples: a pure function of
// (count, seed, position). The samples at positions p, in a group of m ranks, belong to member p
// mod m, and in a world of w ranks, rank p mod w uses them; so what is consumed is a prefix of the
// order at any world size, and any one goes on from it.
//
// It is the permutation of (seed, generation); the same that a Loader from files has in the epoch
// of that number. Where the position says `members`, the samples of each member are in another
// order, that of (seed, epoch). A shuffle after c samples permutes those from c on once more.
//
// Throws UsageError when the position can't be of such an order.
std::vector<std::size_t> store_order(std::size_t count, std::uint64_t seed,
                                     const Position& position);

// Says when records change their places.
struct ShuffleOptions {
  std::uint64_t every_epochs = 1;  // before an epoch whose number this divides; 0: never
  // Shuffles after so many batches since the start of training, as many as they would be had all
  // been of today's size; 0: never. Samples left of the epoch are shuffled; at the start of an
  // epoch, all.
  std::uint64_t every_steps = 0;
  // Makes batches as in the paper: each rank draws its samples from its part at random, with
  // replacement. An epoch is then as many samples as there are, not each of them once.
  bool random_batches = false;
};

// This is a SampleSource over a store. In an epoch, every sample is used once by one rank of the
// world, whatever the number of groups; with every_epochs = 1 the global batches are those of a
// Loader from files with the same seed. Shares of a global batch differ by at most one sample among
// ranks.
//
// next() is collective when it shuffles: at the first call, and when a shuffle is due. All ranks
// seek alike. No batch is prepared across a shuffle or an epoch's end.
class StoreSource final : public SampleSource {
 public:
  // options.rank and world are those of the world that the store was loaded over; options.order and
  // shuffle are not used. Throws what Loader throws, and UsageError when the store's group doesn't
  // fit this rank.
  StoreSource(std::shared_ptr<Store> store, const TransformOptions& transform,
              const LoaderOptions& options, const ShuffleOptions& shuffle = {});
  ~StoreSource() override;

  std::size_t size() const override;
  std::size_t batches_per_epoch() const override;
  std::size_t batches_left() const override;
  Shape shape() const override;
  // Also takes a position of a Loader in the middle of an epoch.
  void seek(const Position& position) override;
  const Batch* next() override;
  const Batch* upcoming() override;
  Position position() const override;
  bool epoch_over() const override;
  SourceStatistics statistics() const override;

  // Reports on the last shuffle that moved records.
  const ShuffleReport& last_shuffle() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::data
