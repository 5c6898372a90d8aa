// Gradients of the weights of partitioned layers, computed when there is time for it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/direct_gradients.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {

// Nobody waits for these gradients before the update, so they can be computed while something
// travels; and of several passes they are one product, which reads and writes each of them once.
// What is kept for them of a layer takes no more memory than its weight; backward computes what
// would be more.
// Only of fully connected layers whose backward asks (parallel::DeferredGradient); others have
// theirs in .grad at once.
class LateGradients {
 public:
  explicit LateGradients(const std::vector<PartitionedLayer>& layers);

  // What backward leaves from now on is gathered here, or is computed by it, as at first. Forgets
  // what was not computed.
  void gather(bool on);
  bool left() const;
  bool left_of(const torch::Tensor& weight) const;
  // Some milliseconds' worth of what is left; false: nothing was. What is complete is in .grad.
  bool compute_some();
  // The next ones are computed where .grad is now, as far as nothing else is to be added there:
  // which may be memory that others read.
  void stay_in_place();

 private:
  struct Weight {
    torch::Tensor weight;
    std::unique_ptr<parallel::DeferredGradient> deferred;
    std::vector<torch::Tensor> inputs, gradients;  // of each pass; of outputs
    std::int64_t kept = 0;                         // elements of these
    torch::Tensor sum;      // kept from step to step: new memory has to be mapped
    std::int64_t rows = 0;  // of it that are there
  };
  static bool compute_some_of(Weight& weight);
  static void begin(Weight& weight);
  static void end(Weight& weight);
  static void forget(Weight& weight);

  std::vector<Weight> weights_;  // in the order of backward
};

}  // namespace convoy::train
