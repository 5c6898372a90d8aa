// The passes of partitioned layers over the samples of a group of ranks.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/strategies/hybrid/late_gradients.h"
#include "train/strategies/hybrid/pass.h"

namespace convoy::train {

// These are what a step needs in training.
struct HeadStep {
  std::uint64_t seed = 0, step = 0;
  std::span<const std::size_t> samples;  // this rank's, by number
  bool gradients = true;                 // of the activations are needed
  // A pass's gradient counts so much in that of the activations; empty: 1.
  std::vector<double> factors;
  // The gradient of what is to become smaller, with respect to the scores of this rank's piece of a
  // round, which has samples.
  std::function<torch::Tensor(std::size_t round, const torch::Tensor& scores)> gradient_of_scores;
  // After each round, also one without samples, with the parameters' gradients of all passes since
  // they were cleared, and before the next one. Without it several passes are under way at a time,
  // and gradients of weights may be left for finish_some().
  std::function<void(std::size_t round)> passed;
};

class Head {
 public:
  // Refers to the network and the exchange. `wire` is the type in which activations and their
  // gradients travel.
  Head(const SplitNetwork& network, Exchange& exchange, const Compute& compute,
       at::ScalarType wire);

  // Forward and backward. Gives the gradient of the activations of this rank's samples; undefined
  // if it isn't needed. While a pass computes, what others need is on its way.
  torch::Tensor train(const HeadInput& input, const HeadStep& step);
  // Some milliseconds' worth of what train() has left of the parameters' gradients; false if
  // nothing was.
  bool finish_some();
  // Whether something is left of the gradient of this parameter.
  bool is_late(const torch::Tensor& parameter) const { return late_.left_of(parameter); }
  // The next gradients are computed in the memory of these.
  void keep_gradients_in_place() { late_.stay_in_place(); }
  // The scores of this rank's samples. Without gradients.
  torch::Tensor scores(const HeadInput& input);
  // Gives the scores of all rows, where every rank of the group has the same ones.
  torch::Tensor scores_of_all(const torch::Tensor& activations);

  const HeadSeconds& seconds() const { return parts_.seconds; }
  void set_timeline(Timeline* timeline) { parts_.timeline = timeline; }

 private:
  class Activations;
  void run_passes(const HeadInput& input, std::size_t most,
                  const std::function<Pass::Plan(std::size_t round)>& plan,
                  const std::function<void(std::size_t round, Pass* pass)>& passed);

  at::ScalarType wire_;
  at::ScalarType sums_;  // in which what travelled is added up
  HeadParts parts_;
  LateGradients late_;
};

}  // namespace convoy::train
