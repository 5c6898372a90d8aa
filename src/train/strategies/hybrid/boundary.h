// What crosses from the layers that every rank has to those that are partitioned, and back.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/strategies/hybrid/exchange.h"
#include "train/strategies/hybrid/rounds.h"

namespace convoy::train {

// What goes into the passes. All tensors have `views` rows for each sample.
struct HeadInput {
  torch::Tensor activations;  // of this rank's samples, [rows, inputs of the first layer]
  std::vector<Round> rounds;  // the same on all ranks of the group
  std::int64_t views = 1;
};

class Boundary {
 public:
  // Refers to the exchange. `width`: values of a row. Values travel as `wire`, and are added up as
  // `sums`.
  Boundary(Exchange& exchange, std::int64_t width, at::ScalarType wire, at::ScalarType sums)
      : exchange_(exchange), width_(width), wire_(wire), sums_(sums) {}

  // Brings the activations of a round to all ranks: [rows of the round, width], on the CPU.
  Exchange::Transfer start_activations(const HeadInput& input, std::size_t round);
  torch::Tensor finish_activations(const HeadInput& input, std::size_t round,
                                   Exchange::Transfer& transfer);
  // `gradient` of a round's activations is the part of it that comes through this rank's units.
  Exchange::Transfer start_gradients(const HeadInput& input, std::size_t round,
                                     const torch::Tensor& gradient);
  // Puts the sum over the ranks' parts, times `factor`, into the rows of `all` that are the
  // round's.
  void finish_gradients(const HeadInput& input, std::size_t round, double factor,
                        Exchange::Transfer& transfer, torch::Tensor& all);
  // Of each round, one piece after the other; `own` are this rank's, one for each sample.
  Exchange::Transfer start_sample_numbers(const HeadInput& input, std::span<const std::size_t> own);
  std::vector<std::vector<std::size_t>> finish_sample_numbers(const HeadInput& input,
                                                              Exchange::Transfer& transfer);

 private:
  std::vector<std::size_t> samples_of_ranks(const HeadInput& input) const;
  std::vector<std::size_t> elements(const HeadInput& input, std::size_t round) const;
  const data::Range& own_piece(const HeadInput& input, std::size_t round) const {
    return input.rounds[round].pieces[static_cast<std::size_t>(exchange_.rank())];
  }

  Exchange& exchange_;
  std::int64_t width_;
  at::ScalarType wire_, sums_;
};

}  // namespace convoy::train
