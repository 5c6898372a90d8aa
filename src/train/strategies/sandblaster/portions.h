// The samples of a batch optimization, and what a replica computes of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "convoy/data/portions.h"
#include "convoy/data/sample_source.h"
#include "convoy/server/batch.h"
#include "train/strategies/downpour/around.h"
#include "train/strategies/sandblaster/space.h"

namespace convoy::train {

// Portions are of one epoch, so that all evaluations are of the same order and augmentation:
// portion p has positions p x portion to (p + 1) x portion - 1 of its order.
inline constexpr std::uint64_t kPinnedEpoch = 0;

// The batches of one portion after another. One thread; alike on all ranks of a replica.
class PortionSource final : public data::SampleSource {
 public:
  // `loader` makes the batches of what is put into `portions`, of `batch` samples at most.
  PortionSource(data::SampleSource& loader, std::shared_ptr<data::Portions> portions,
                std::uint64_t batch, std::uint64_t portion);

  // They may be read ahead of need, behind what was said before.
  void ahead(const server::PortionGroup& group);
  // next() gives the batches of this one, whatever there was.
  void begin(std::uint32_t portion);
  // Whether the batch last returned is its last.
  bool ends() const { return at_ == end_; }

  std::size_t size() const override { return loader_.size(); }
  std::size_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  std::size_t batches_left() const override { return 0; }
  data::Shape shape() const override { return loader_.shape(); }
  void seek(const data::Position&) override {}
  const data::Batch* next() override;
  data::Position position() const override { return {}; }
  bool epoch_over() const override { return false; }
  data::SourceStatistics statistics() const override { return loader_.statistics(); }

 private:
  data::Range positions(std::uint32_t portion) const;
  void queue(std::uint32_t portion);

  data::SampleSource& loader_;
  std::shared_ptr<data::Portions> portions_;
  std::uint64_t batch_, portion_;
  std::deque<std::uint32_t> queued_;  // that the loader was given, and begin() not
  std::uint64_t at_ = 0, end_ = 0;    // of the portion at hand
  bool unfinished_ = false;           // batches of it are with the loader
};

// What the strategy of a replica's ranks sees: portions as samples, an optimizer that does nothing,
// and always the same moment, by which it draws random numbers.
class PortionContext final : public InnerContext {
 public:
  using Report = std::function<bool(const StepReport& report)>;

  PortionContext(TrainerContext& outer, const Recipe& recipe) : InnerContext(outer, recipe) {}
  // What it sees from now on; `report` says whether there is more of the portion.
  void set(PortionSource& source, Report report);
  // Those that are trained, once the strategy has asked for an optimizer for them.
  const std::vector<parallel::NamedTensor>& parameters() const { return parameters_; }

  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override;
  data::SampleSource& samples() override { return source_ ? *source_ : outer().samples(); }
  const Moment& moment() const override { return moment_; }
  // A replica stops between portions.
  std::uint32_t requests() override { return 0; }
  bool updated(const StepReport& report) override { return report_(report); }
  // A line search that has gone too far takes a shorter step.
  bool ends_at_faults() const override { return false; }
  void stopped() override {}

 private:
  PortionSource* source_ = nullptr;
  Report report_;
  Moment moment_;
  mutable std::vector<parallel::NamedTensor> parameters_;
};

// Loss and gradient of a portion: both the sums over its samples, in the network's type and in
// double. Of a rank; collective over those of its replica.
template <typename T>
class PortionPass {
 public:
  // The strategy is prepared with the context. Refers to all of them.
  PortionPass(Strategy& strategy, PortionContext& context, const Vectors& vectors,
              PortionSource& source);

  // All of this rank's vectors, where weights are fetched into; set_weights() gives them to the
  // network.
  BatchBlock<T>& weights() { return weights_; }
  const Vectors& vectors() const { return vectors_; }
  // `gradient`, which is zeros, becomes that of the vectors that this rank pushes. A loss that is
  // not finite: neither it nor the gradient is good for anything.
  double compute(std::uint32_t portion, std::span<T> gradient);

 private:
  bool took(const StepReport& report);

  Strategy& strategy_;
  const Vectors& vectors_;
  PortionSource& source_;
  OneFunction one_function_;
  bool looked_ = false;
  BatchBlock<T> weights_;
  std::span<T> gradient_;
  double loss_ = 0;
};

}  // namespace convoy::train
