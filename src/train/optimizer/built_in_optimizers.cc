#include "convoy/train/fused_optimizers.h"
#include "convoy/train/optimizer_rule.h"
#include "train/optimizer/grouped_optimizer.h"

namespace convoy::train {
namespace {

using Slots = std::vector<torch::Tensor*>;

// LibTorch's options of a rule.
std::unique_ptr<torch::optim::OptimizerOptions> options_of(const optim::Sgd& r) {
  return std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(r.lr)
                                                        .momentum(r.momentum)
                                                        .dampening(r.dampening)
                                                        .weight_decay(r.weight_decay)
                                                        .nesterov(r.nesterov));
}
template <class Options, class Rule>
std::unique_ptr<torch::optim::OptimizerOptions> adam_options(const Rule& r) {
  return std::make_unique<Options>(Options(r.lr)
                                       .betas({r.beta1, r.beta2})
                                       .eps(r.eps)
                                       .weight_decay(r.weight_decay)
                                       .amsgrad(r.amsgrad));
}
std::unique_ptr<torch::optim::OptimizerOptions> options_of(const optim::Adam& r) {
  return adam_options<torch::optim::AdamOptions>(r);
}
std::unique_ptr<torch::optim::OptimizerOptions> options_of(const optim::AdamW& r) {
  return adam_options<torch::optim::AdamWOptions>(r);
}
std::unique_ptr<torch::optim::OptimizerOptions> options_of(const optim::Adagrad& r) {
  return std::make_unique<torch::optim::AdagradOptions>(
      torch::optim::AdagradOptions(r.lr)
          .lr_decay(r.lr_decay)
          .weight_decay(r.weight_decay)
          .initial_accumulator_value(r.initial_accumulator_value)
          .eps(r.eps));
}

// LibTorch has none: make_velocity_optimizer, make_layerwise_optimizer.
template <class Rule>
std::unique_ptr<torch::optim::OptimizerOptions> options_of(const Rule&) {
  return nullptr;
}

// LibTorch's state, in the order of the rule's slots, whose names are those of checkpoints.
Slots slots_in(torch::optim::SGDParamState& s) { return {&s.momentum_buffer()}; }
Slots slots_in(torch::optim::AdagradParamState& s) { return {&s.sum()}; }
// Of Adam and AdamW.
template <class AdamState>
Slots slots_in(AdamState& s) {
  return {&s.exp_avg(), &s.exp_avg_sq(), &s.max_exp_avg_sq()};
}

// SGD counts no steps.
constexpr bool counts(const torch::optim::SGDParamState*) { return false; }
constexpr bool counts(const void*) { return true; }

template <class Fused, class FusedOptions, class ParamState>
class BuiltIn final : public GroupedOptimizer {
 public:
  explicit BuiltIn(const ParameterGroups& groups) : optimizer_(make(groups)) {
    for (const optim::Slot& slot : optim::slots(optimizer_rule(groups.front().values)))
      names_.emplace_back(slot.name);
  }

  void set_learning_rate(std::size_t group, double lr) override {
    optimizer_->param_groups()[group].options().set_lr(lr);
  }
  void set_weight_decay(std::size_t group, double decay) override {
    static_cast<FusedOptions&>(optimizer_->param_groups()[group].options()).weight_decay(decay);
  }
  void zero_grad() override { optimizer_->zero_grad(); }
  void step() override { optimizer_->step(); }
  std::vector<std::string> slot_names() const override { return names_; }
  Slots slots(const torch::Tensor& parameter, bool make) override {
    ParamState* s = names_.empty() ? nullptr : state_of(parameter, make);
    if (s == nullptr) return {};
    Slots slots = slots_in(*s);
    slots.resize(names_.size());
    return slots;
  }
  std::int64_t steps(const torch::Tensor& parameter) override {
    if constexpr (kCounts) {
      const ParamState* s = state_of(parameter, false);
      return s == nullptr ? 0 : s->step();
    }
    return 0;
  }
  void set_steps(const torch::Tensor& parameter, std::int64_t steps) override {
    if constexpr (kCounts) state_of(parameter, true)->step(steps);
  }

 private:
  static constexpr bool kCounts = counts(static_cast<const ParamState*>(nullptr));

  static std::unique_ptr<Fused> make(const ParameterGroups& groups) {
    std::vector<torch::optim::OptimizerParamGroup> made;
    for (const ParameterGroup& group : groups) {
      std::vector<torch::Tensor> tensors;
      for (const auto& parameter : group.parameters) tensors.push_back(parameter.tensor);
      made.emplace_back(std::move(tensors),
                        std::visit([](const auto& rule) { return options_of(rule); },
                                   optimizer_rule(group.values)));
    }
    const auto defaults = static_cast<const FusedOptions&>(made.front().options());
    return std::make_unique<Fused>(std::move(made), defaults);
  }

  ParamState* state_of(const torch::Tensor& parameter, bool make) {
    auto& states = optimizer_->state();
    // LibTorch takes an entry, even a null one, for a parameter that was updated.
    const auto found = states.find(parameter.unsafeGetTensorImpl());
    if (found != states.end()) return static_cast<ParamState*>(found->second.get());
    if (!make) return nullptr;
    auto made = std::make_unique<ParamState>();
    ParamState* const state = made.get();
    states[parameter.unsafeGetTensorImpl()] = std::move(made);
    return state;
  }

  std::vector<std::string> names_;  // of the rule's slots
  std::unique_ptr<Fused> optimizer_;
};

using OptimizerOfRule = std::unique_ptr<GroupedOptimizer>;

OptimizerOfRule make_for(const optim::Sgd&, const ParameterGroups& groups) {
  using namespace torch::optim;
  return std::make_unique<BuiltIn<FusedSgd, SGDOptions, SGDParamState>>(groups);
}
OptimizerOfRule make_for(const optim::SgdVelocity&, const ParameterGroups& groups) {
  return make_velocity_optimizer(groups);
}
OptimizerOfRule make_for(const optim::Adam&, const ParameterGroups& groups) {
  using namespace torch::optim;
  return std::make_unique<BuiltIn<FusedAdam, AdamOptions, AdamParamState>>(groups);
}
OptimizerOfRule make_for(const optim::AdamW&, const ParameterGroups& groups) {
  using namespace torch::optim;
  return std::make_unique<BuiltIn<FusedAdamW, AdamWOptions, AdamWParamState>>(groups);
}
OptimizerOfRule make_for(const optim::Adagrad&, const ParameterGroups& groups) {
  using namespace torch::optim;
  return std::make_unique<BuiltIn<FusedAdagrad, AdagradOptions, AdagradParamState>>(groups);
}
OptimizerOfRule make_for(const optim::Lars&, const ParameterGroups& groups) {
  return make_layerwise_optimizer(groups);
}
OptimizerOfRule make_for(const optim::Lamb&, const ParameterGroups& groups) {
  return make_layerwise_optimizer(groups);
}

}  // namespace

std::unique_ptr<GroupedOptimizer> make_built_in_optimizer(const ParameterGroups& groups) {
  return std::visit([&groups](const auto& rule) { return make_for(rule, groups); },
                    optimizer_rule(groups.front().values));
}

}  // namespace convoy::train
