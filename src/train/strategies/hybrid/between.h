// What crosses between partitioned layers, and from the last one to where losses are computed.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/strategies/hybrid/exchange.h"
#include "train/strategies/hybrid/rounds.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {

// Passes that are under way at a time have different slots. Results are on the CPU.
class Between {
 public:
  // Refers to the network and the exchange. Values travel as `wire`, and are added up as `sums`.
  Between(const SplitNetwork& network, Exchange& exchange, at::ScalarType wire, at::ScalarType sums)
      : network_(network), exchange_(exchange), wire_(wire), sums_(sums) {}

  // Brings what all partitions have for `own`, [rows, units of this partition], together: [rows,
  // all units].
  Exchange::Transfer start_all_units(std::size_t slot, std::size_t layer, const torch::Tensor& own);
  torch::Tensor finish_all_units(std::size_t layer, Exchange::Transfer& transfer);
  // Adds up the gradient of the units of this partition, of which each rank has a part in its
  // `of_all`.
  Exchange::Transfer start_own_units(std::size_t slot, std::size_t layer,
                                     const torch::Tensor& of_all);
  torch::Tensor finish_own_units(std::size_t layer, Exchange::Transfer& transfer);
  // Bring all scores of a sample to the rank whose sample it is: [its rows in the round, all
  // scores].
  Exchange::Transfer start_scores(std::size_t slot, const Round& round, std::int64_t views,
                                  const torch::Tensor& own);
  torch::Tensor finish_scores(Exchange::Transfer& transfer);
  // Bring the gradient of this partition's scores from those whose samples they are of.
  Exchange::Transfer start_score_gradients(std::size_t slot, const Round& round, std::int64_t views,
                                           const torch::Tensor& gradient);
  torch::Tensor finish_score_gradients(Exchange::Transfer& transfer);

 private:
  const std::vector<std::int64_t>& units(std::size_t layer) const {
    return network_.head()[layer].units;
  }
  std::int64_t own_units(std::size_t layer) const { return units(layer)[me()]; }
  std::size_t last() const { return network_.head().size() - 1; }
  std::size_t me() const { return static_cast<std::size_t>(exchange_.rank()); }

  const SplitNetwork& network_;
  Exchange& exchange_;
  at::ScalarType wire_, sums_;
};

}  // namespace convoy::train
