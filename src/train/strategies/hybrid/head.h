// The passes of partitioned layers over the samples of a group of ranks.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "convoy/train/compute.h"
#include "train/strategies/hybrid/exchange.h"
#include "train/strategies/hybrid/rounds.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {

// What goes into the passes. All tensors have `views` rows for each sample.
struct HeadInput {
  torch::Tensor activations;  // of this rank's samples, [rows, inputs of the first layer]
  std::vector<Round> rounds;  // the same on all ranks of the group
  std::int64_t views = 1;
};

// In training.
struct HeadStep {
  std::uint64_t seed = 0, step = 0;
  std::span<const std::size_t> samples;  // this rank's, by number
  bool gradients = true;                 // of the activations are needed
  // A pass's gradient counts so much in that of the activations; empty: 1.
  std::vector<double> factors;
  // The gradient of what is to become smaller, with respect to the scores of this rank's piece of a
  // round, which has samples.
  std::function<torch::Tensor(std::size_t round, const torch::Tensor& scores)> gradient_of_scores;
  // After a pass, with the parameters' gradients of all passes since they were cleared.
  std::function<void(std::size_t round)> passed;
};

struct HeadSeconds {
  double forward = 0, backward = 0;  // computing
};

class Head {
 public:
  // Refers to the network and the exchange. `wire` is the type in which activations and their
  // gradients travel.
  Head(const SplitNetwork& network, Exchange& exchange, const Compute& compute,
       at::ScalarType wire);

  // Forward and backward. Gives the gradient of the activations of this rank's samples; undefined
  // if it isn't needed. While a pass computes, what the next one needs is on its way, and so are
  // the gradients of those before.
  torch::Tensor train(const HeadInput& input, const HeadStep& step);
  // The scores of this rank's samples. Without gradients.
  torch::Tensor scores(const HeadInput& input);
  // The same where every rank of the group has the same rows: the scores of all of them.
  torch::Tensor scores_of_all(const torch::Tensor& activations);

  const HeadSeconds& seconds() const { return seconds_; }
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

 private:
  struct Pass;
  Exchange::Transfer start_activations(const HeadInput& input, std::size_t round);
  torch::Tensor activations_of(const HeadInput& input, std::size_t round,
                               Exchange::Transfer& transfer);
  Exchange::Transfer start_gradients(const HeadInput& input, std::size_t round,
                                     const torch::Tensor& gradient);
  void add_gradients(const HeadInput& input, std::size_t round, double factor,
                     Exchange::Transfer& transfer, torch::Tensor& sum);
  std::vector<std::vector<std::size_t>> sample_numbers(const HeadInput& input,
                                                       std::span<const std::size_t> own);
  torch::Tensor run(std::size_t layer, const torch::Tensor& input);
  void forward(Pass& pass);
  torch::Tensor backward(Pass& pass, torch::Tensor gradient);
  torch::Tensor all_units(std::size_t layer, const torch::Tensor& own);
  torch::Tensor own_units(std::size_t layer, const torch::Tensor& of_all);
  torch::Tensor to_owners(const HeadInput& input, std::size_t round, const torch::Tensor& scores);
  torch::Tensor from_owners(const HeadInput& input, std::size_t round,
                            const torch::Tensor& gradient);
  double end_of(const char* phase, Clock::time_point start, double waited_before);

  std::int64_t units(std::size_t layer, int partition) const {
    return network_.head()[layer].units[static_cast<std::size_t>(partition)];
  }

  const SplitNetwork& network_;
  Exchange& exchange_;
  const Compute& compute_;
  at::ScalarType wire_;
  at::ScalarType sums_;  // in which what travelled is added up
  HeadSeconds seconds_;
  Timeline* timeline_ = nullptr;
};

}  // namespace convoy::train
