#include "train/strategies/hybrid/optimizers.h"

#include <set>

#include "convoy/parallel/clip.h"
#include "train/strategies/updates.h"

namespace convoy::train {
namespace {

// What is saved for these parameters, or for all others: of what is no parameter's, one of the
// optimizers has to say so.
State state_of(const State& saved, const std::vector<parallel::NamedTensor>& parameters,
               bool of_these) {
  std::set<std::string> names;
  for (const auto& parameter : parameters) names.insert(parameter.name);
  State own;
  for (const auto& [slot, tensor] : saved.optimizer) {
    if (names.contains(slot.substr(slot.find('/') + 1)) == of_these) own.optimizer[slot] = tensor;
  }
  own.numbers = saved.numbers;
  return own;
}

}  // namespace

HybridOptimizers::HybridOptimizers(const TrainerContext& context, const SplitNetwork& network,
                                   const Batches& batches, const comm::Communicator& partitions)
    : batches_(batches) {
  for (auto& parameter : parallel::unique_parameters(network)) {
    auto& list = network.parts().contains(parameter.name) ? head_parameters_ : trunk_parameters_;
    if (parameter.tensor.requires_grad()) list.push_back(std::move(parameter));
  }
  if (!trunk_parameters_.empty()) trunk_.emplace(context.make_optimizer(trunk_parameters_));
  head_.emplace(context.make_optimizer(head_parameters_));
  head_->set_divided(partitions, names_of(head_parameters_));
}

double HybridOptimizers::set_learning_rate(double lr) {
  const auto set = [&](NamedOptimizer& optimizer, double k) {
    optimizer.set_learning_rate(lr * rate_scale(batches_.rule, k));
    if (batches_.rule != RateRule::root) return;
    optimizer.set_weight_decay(
        [&](double scale, double own) { return decay_for_root(lr * scale, own, k); });
  };
  if (trunk_) set(*trunk_, batches_.trunk);
  set(*head_, batches_.head);
  return lr * rate_scale(batches_.rule, batches_.trunk);
}

void HybridOptimizers::zero_grad() {
  if (trunk_) trunk_->zero_grad();
  head_->zero_grad();
}

double HybridOptimizers::clip(const comm::Communicator& partitions, double max_norm) const {
  return parallel::clip_grad_norm(partitions, tensors_of(head_parameters_),
                                  tensors_of(trunk_parameters_), max_norm);
}
double HybridOptimizers::clip_head(const comm::Communicator& partitions, double max_norm) const {
  return parallel::clip_grad_norm(partitions, tensors_of(head_parameters_), {}, max_norm);
}
double HybridOptimizers::clip_trunk(const comm::Communicator& partitions, double max_norm) const {
  return parallel::clip_grad_norm(partitions, {}, tensors_of(trunk_parameters_), max_norm);
}

std::vector<parallel::NamedTensor> HybridOptimizers::parameters() const {
  std::vector<parallel::NamedTensor> all = trunk_parameters_;
  all.insert(all.end(), head_parameters_.begin(), head_parameters_.end());
  return all;
}

void HybridOptimizers::step_trunk() {
  if (trunk_) trunk_->step();
}

void HybridOptimizers::save(State& state) const {
  if (trunk_) trunk_->save(state);
  State head;
  head_->save(head);
  state.optimizer.merge(head.optimizer);
  state.numbers.merge(head.numbers);
}

void HybridOptimizers::load(const State& state) {
  if (trunk_) trunk_->load(state_of(state, trunk_parameters_, true));
  head_->load(state_of(state, trunk_parameters_, false));
}

}  // namespace convoy::train
