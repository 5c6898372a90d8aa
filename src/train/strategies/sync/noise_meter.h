// The noise of gradients, measured now and then (training.noise_every).
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/gradient_reducer.h"
#include "convoy/train/strategy.h"

namespace convoy::train {

// One thread at a time. Between begin() and finish() of an update that is not measured the other
// calls do nothing.
class NoiseMeter {
 public:
  NoiseMeter() = default;
  // `every` 0: never. Refers to a communicator of the strategy's own.
  NoiseMeter(const comm::Communicator& communicator,
             const std::vector<parallel::NamedTensor>& parameters, std::int64_t every);

  // An update begins, after so many.
  void begin(std::int64_t updates);
  // Whether that update is to be measured.
  bool due() const { return on_; }
  // .grad holds the gradient of this rank's first micro-batch and nothing else, multiplied by
  // weight / total. For a rank with several of them.
  void first_part(double weight, double total);
  // .grad holds the average over all ranks.
  void whole_batch();
  // Gives the noise over the samples of all ranks, which count `weight`; nothing where no rank had
  // several micro-batches. Collective where the update is measured.
  std::optional<GradientNoise> finish(double weight);

 private:
  enum { kSquares, kInverses, kRanks, kSize };

  comm::Communicator communicator_;
  std::vector<at::Tensor> parameters_;
  std::int64_t every_ = 0;
  bool on_ = false;
  std::array<double, kSize> sums_{};
  double batch_square_ = 0;
};

}  // namespace convoy::train
