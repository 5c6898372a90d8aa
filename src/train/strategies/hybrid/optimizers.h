// The optimizers of a network of which some layers are partitioned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/strategy.h"
#include "train/strategies/hybrid/rates.h"
#include "train/strategies/hybrid/split.h"

namespace convoy::train {

// One for the layers that every rank has, one for those that are partitioned, which may be updated
// more often.
class HybridOptimizers {
 public:
  // These say how many times as large batches are as the one that the recipe's rates are for.
  struct Batches {
    RateRule rule = RateRule::own;
    double trunk = 1, head = 1;
  };
  // `partitions` are the ranks that hold the partitioned layers together. Collective over them, and
  // so are updates of these layers.
  HybridOptimizers(const TrainerContext& context, const SplitNetwork& network,
                   const Batches& batches, const comm::Communicator& partitions);

  bool trains_trunk() const { return trunk_.has_value(); }
  const std::vector<parallel::NamedTensor>& head_parameters() const { return head_parameters_; }
  // The trunk's, and behind them the head's, as the network has them.
  std::vector<parallel::NamedTensor> parameters() const;

  // Sets the rate that the recipe has at this moment; weight decay that fits the rate changes with
  // it. Gives the trunk's rate.
  double set_learning_rate(double lr);
  void zero_grad();
  void zero_head() { head_->zero_grad(); }
  // Clip as parallel::clip_grad_norm does: all together, with the norm over the partitions; or one
  // of the two.
  double clip(const comm::Communicator& partitions, double max_norm) const;
  double clip_head(const comm::Communicator& partitions, double max_norm) const;
  double clip_trunk(const comm::Communicator& partitions, double max_norm) const;
  void step_trunk();
  void step_head() { head_->step(); }

  void save(State& state) const;
  void load(const State& state);

 private:
  std::vector<parallel::NamedTensor> trunk_parameters_, head_parameters_;
  std::optional<NamedOptimizer> trunk_;  // where there is something to train
  std::optional<NamedOptimizer> head_;
  Batches batches_;
};

}  // namespace convoy::train
