// One pass of partitioned layers over the samples of a round, in steps between which others can be
// made while what this one needs travels.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "convoy/model/randomness.h"
#include "convoy/train/compute.h"
#include "convoy/train/timeline.h"
#include "train/strategies/hybrid/between.h"
#include "train/strategies/hybrid/boundary.h"

namespace convoy::train {

struct HeadSeconds {
  double forward = 0, backward = 0;  // computing
};

// What all passes use.
struct HeadParts {
  const SplitNetwork& network;
  Exchange& exchange;
  const Compute& compute;
  Boundary boundary;
  Between between;
  HeadSeconds seconds;
  Timeline* timeline = nullptr;

  torch::Tensor run(std::size_t layer, const torch::Tensor& input) const;
};

// A phase, as long as it lives, in the timeline; what of it was no waiting for the exchange is
// added to `seconds`.
class Computing {
 public:
  Computing(HeadParts& parts, const char* phase, double& seconds);
  ~Computing();
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  HeadParts& parts_;
  const char* phase_;
  double& seconds_;
  Clock::time_point start_;
  double waited_;
};

class Pass {
 public:
  // This is what a pass does: for a round that has samples.
  struct Plan {
    std::size_t round = 0;
    std::size_t slot = 0;                        // no two passes that are under way have the same
    std::function<torch::Tensor()> activations;  // waits for them
    // In training: from the scores of this rank's piece, which has samples, to their gradient.
    // Else the pass ends with the scores.
    std::function<torch::Tensor(const torch::Tensor& scores)> gradient_of_scores;
    bool gradients = true;  // of the activations are needed
    // For dropout; the samples of the round.
    std::uint64_t seed = 0, step = 0;
    std::span<const std::size_t> samples;
  };
  // Refers to the parts and the input.
  Pass(HeadParts& parts, const HeadInput& input, Plan plan);

  std::size_t round() const { return plan_.round; }
  // Waits for what the next step needs, computes it, and sends what comes of it on its way. False
  // after the last one.
  bool advance();
  // Afterwards: of this rank's piece, without training. [rows, all scores]
  const torch::Tensor& scores() const { return scores_; }
  // Gives the gradient of the activations, in training, which is on its way to whose samples they
  // are, where it is needed.
  Exchange::Transfer take_gradients() { return std::move(transfer_); }

 private:
  void forward(std::size_t layer);
  void turn();
  void backward(std::size_t layer);
  const Round& pieces() const { return input_.rounds[plan_.round]; }

  HeadParts& parts_;
  const HeadInput& input_;
  Plan plan_;
  std::size_t steps_ = 0;                        // made
  std::vector<torch::Tensor> inputs_, outputs_;  // of layers; inputs are leaves of their graphs
  torch::Tensor scores_;
  Exchange::Transfer transfer_;
};

}  // namespace convoy::train
