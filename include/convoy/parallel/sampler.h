// A sampler for torch::data that shards a data set over the ranks of a world.
#pragma once

#include <torch/data/samplers/base.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace convoy::parallel {

struct DistributedSamplerOptions {
  std::uint64_t seed = 0;
  // Says whether each epoch has another order; false: ascending.
  bool shuffle = true;
  // Leaves out a last global batch that is not full, so that every rank makes the same number of
  // steps of the same size. Which samples are left out changes with the epoch when shuffling.
  bool drop_last = false;
};

// Gives each rank its part of every epoch: over all ranks, each sample exactly once (drop_last
// aside).
//
//   auto sampler = convoy::DistributedSampler(*dataset.size(), world);
//   auto loader = torch::data::make_data_loader(std::move(dataset), sampler, local_batch);
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& batch : *loader) ...             // every begin() starts the next epoch's order
//
// Order. Only (size, seed, epoch) decide it, not rank or world size. One next(local_batch) on each
// rank takes a global batch of local_batch * world consecutive places, shared out evenly; the last
// one may be smaller, with shares that differ by at most one. A rank whose share is empty makes one
// step fewer than the others (DistributedModel::finish_epoch settles that). All ranks must use the
// same options and the same batch size.
//
// Epochs. The first reset() after construction, seek() or load() begins the epoch set there; each
// later one begins the next epoch, with another order. A DataLoader calls reset() in begin().
//
// Copies share one state: the handle that stays with the program steers and observes the copy that
// the loader took. Hence two loaders need two samplers, constructed separately.
//
// Threads: none of it is synchronized; DataLoader calls a sampler only from the thread that
// iterates, so use the handle on that thread.
//
// Errors: UsageError for rank or world size out of range, a batch size of 0, a position beyond the
// data set's end, and an archive that is not a sampler's or is of another data set, seed or
// shuffle.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // `size`: samples in the data set, which must be the same on every rank.
  DistributedSampler(std::size_t size, int rank, int world, DistributedSamplerOptions options = {});

  // Makes one for the ranks of a World or Communicator.
  template <typename Ranks>
  requires requires(const Ranks& ranks) {
    { ranks.rank() } -> std::convertible_to<int>;
    { ranks.size() } -> std::convertible_to<int>;
  }
  DistributedSampler(std::size_t size, const Ranks& ranks, DistributedSamplerOptions options = {})
      : DistributedSampler(size, ranks.rank(), ranks.size(), options) {}

  // Begins an epoch (see above). `new_size` replaces the size of the data set; a position that
  // seek() or load() had set is then given up, and the epoch begins at its start.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

  // Gives this rank's samples of the next global batch: at most `local_batch`, never none; nullopt
  // when the epoch has no more for this rank.
  std::optional<std::vector<std::size_t>> next(std::size_t local_batch) override;

  // Makes the next reset() begin epoch `epoch` after its first `consumed` samples, which may have
  // been consumed at another world size. consumed == size() stands for the start of epoch + 1.
  void seek(std::uint64_t epoch, std::size_t consumed = 0);

  // Gives the data set's size.
  std::size_t size() const;
  // Gives the epoch begun, or to be begun if none is yet; counted from 0.
  std::uint64_t epoch() const;
  // Says how many samples of the epoch all ranks together have been given. A loader with worker
  // threads asks ahead of what it delivers, so this is ahead of training; a checkpoint wants the
  // next one.
  std::size_t position() const;
  // Gives the position after training has taken the first `steps` batches of this reset(): what to
  // hand to seek() when resuming there.
  std::size_t position_after(std::size_t steps, std::size_t local_batch) const;
  // Counts the batches from the start of this reset() to the epoch's end, on the rank that gets
  // most.
  std::size_t steps(std::size_t local_batch) const;

  // These save and load epoch and position, with seed and size to check against. Loading at another
  // rank or world size is fine; the next reset() goes on where save() was called. Nothing changes
  // when load() throws.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace convoy::parallel
