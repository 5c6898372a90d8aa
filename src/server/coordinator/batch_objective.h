// Loss and gradient over a whole batch, computed by replicas and summed by shards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/optim/batch.h"
#include "convoy/server/batch.h"

namespace convoy::server::coordinator {

// What shards do for an evaluation.
class EvaluationShards {
 public:
  virtual ~EvaluationShards() = default;
  // Opens an evaluation: a numbered command of the space. Without effect, repeated.
  virtual void open(const EvaluationId& id, std::uint32_t portions) = 0;
  // Makes the gradient: `scale` times the sum of all portions' gradients, plus `also`. Returns what
  // portions some shard lacks; none when all have the gradient, also before this was called.
  virtual std::vector<PortionRange> seal(const EvaluationId& id, double scale,
                                         std::span<const optim::Term> also) = 0;
  virtual double square(const optim::VectorName& name) = 0;
};

// What replicas do, by a ledger of groups.
class EvaluationReplicas {
 public:
  virtual ~EvaluationReplicas() = default;
  // Has all portions done. Goes on where it was if it has begun already.
  virtual void begin(const EvaluationId& id) = 0;
  struct Outcome {
    double loss = 0;                          // the sum over all samples, if it is finite
    std::optional<std::uint32_t> not_finite;  // a portion whose loss isn't
    bool finite = true;
  };
  // Until the ledger is complete, or a loss isn't finite.
  virtual Outcome wait(const EvaluationId& id) = 0;
  // To be done again; then wait() has to be called again.
  virtual void missing(std::span<const PortionRange> ranges) = 0;
};

struct BatchSize {
  std::uint32_t portions = 1;
  std::uint64_t samples = 1;
  double l2 = 0;  // l2/2 times the square of all weights is added to the mean loss
};

// The mean loss over all samples, plus L2. A loss that isn't finite is infinite, whatever the
// portions' losses were. Interrupted by an exception, an evaluation goes on where it was.
class BatchObjective final : public optim::Objective {
 public:
  BatchObjective(const BatchSize& size, EvaluationShards& shards, EvaluationReplicas& replicas)
      : size_(size), shards_(shards), replicas_(replicas) {}

  double evaluate(const optim::VectorName& weights) override;

  // Of the last evaluation: why its loss isn't finite, if that is known.
  std::optional<std::uint32_t> not_finite() const { return not_finite_; }
  std::uint64_t repeated() const { return repeated_; }  // times that shards lacked something

 private:
  const BatchSize size_;
  EvaluationShards& shards_;
  EvaluationReplicas& replicas_;
  std::optional<std::uint32_t> not_finite_;
  std::uint64_t repeated_ = 0;
};

}  // namespace convoy::server::coordinator
