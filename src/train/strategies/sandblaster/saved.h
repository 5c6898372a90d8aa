// What a checkpoint has of a batch optimization: the method's state, and the vectors that it names.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/optim/batch.h"
#include "convoy/parallel/gradient_reducer.h"
#include "convoy/train/batch_service.h"
#include "convoy/train/state.h"
#include "train/strategies/downpour/vectors.h"

namespace convoy::train {

// A rank's part of a method's vectors, but for the weights, which are the network's. In a State its
// scalars are lists["batch"] (optim::lines_of), the same on all ranks, and a vector is a slot of
// every parameter: "gradient/fc.weight", "step.12/fc.weight", "change.12/fc.weight",
// "direction/...".
class SavedBatch {
 public:
  // Of a state that shards have now. Throws UsageError for a vector that they have no longer.
  SavedBatch(optim::BatchState state, optim::BatchMethod method, const Vectors& vectors,
             const std::vector<parallel::NamedTensor>& parameters, BatchService& service);

  const optim::BatchState& state() const { return state_; }
  void write(State& to) const;

 private:
  optim::BatchState state_;
  Tensors slots_;
};

// Of what was read from a checkpoint, nothing where no batch optimization has written it. Throws
// UsageError naming what is missing of it, for this method.
std::optional<optim::BatchState> saved_batch_state(const State& saved, optim::BatchMethod method);

// Leaves the newest `longest` steps of the history, and of the products those of what is left: what
// L-BFGS goes on from that remembers so many.
void shorten_history(optim::BatchState& state, std::size_t longest);

// Gives the shards the weights, which are the network's, and all other vectors of the state.
void give_saved_vectors(const State& saved, const optim::BatchState& state,
                        optim::BatchMethod method, const Vectors& vectors,
                        const std::vector<parallel::NamedTensor>& parameters,
                        BatchService& service);

// Without what a batch optimization has in it: for the strategy that it is around.
State without_batch(const State& saved);

}  // namespace convoy::train
