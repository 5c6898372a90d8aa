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

// LibTorch's state and its names, which are those of checkpoints.
std::vector<std::string> names(const OptimizerRecipe& r, const torch::optim::SGDParamState*) {
  return r.momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum_buffer"};
}
Slots slots_in(torch::optim::SGDParamState& s) { return {&s.momentum_buffer()}; }
std::vector<std::string> names(const OptimizerRecipe&, const torch::optim::AdagradParamState*) {
  return {"sum"};
}
Slots slots_in(torch::optim::AdagradParamState& s) { return {&s.sum()}; }
// Of Adam and AdamW.
std::vector<std::string> names(const OptimizerRecipe& r, const void*) {
  std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  if (r.amsgrad) names.emplace_back("max_exp_avg_sq");
  return names;
}
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
  explicit BuiltIn(const ParameterGroups& groups)
      : recipe_(groups.front().values), optimizer_(make(groups)) {}

  void set_learning_rate(std::size_t group, double lr) override {
    optimizer_->param_groups()[group].options().set_lr(lr);
  }
  void set_weight_decay(std::size_t group, double decay) override {
    static_cast<FusedOptions&>(optimizer_->param_groups()[group].options()).weight_decay(decay);
  }
  void zero_grad() override { optimizer_->zero_grad(); }
  void step() override { optimizer_->step(); }
  std::vector<std::string> slot_names() const override {
    return names(recipe_, static_cast<const ParamState*>(nullptr));
  }
  Slots slots(const torch::Tensor& parameter, bool make) override {
    const std::size_t count = slot_names().size();
    ParamState* s = count == 0 ? nullptr : state_of(parameter, make);
    if (s == nullptr) return {};
    Slots slots = slots_in(*s);
    slots.resize(count);
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

  OptimizerRecipe recipe_;
  std::unique_ptr<Fused> optimizer_;
};

}  // namespace

std::unique_ptr<GroupedOptimizer> make_built_in_optimizer(const ParameterGroups& groups) {
  using namespace torch::optim;
  const std::string& name = groups.front().values.name;
  if (name == "sgd_velocity") return make_velocity_optimizer(groups);
  if (name == "lars" || name == "lamb") return make_layerwise_optimizer(groups);
  if (name == "adam")
    return std::make_unique<BuiltIn<FusedAdam, AdamOptions, AdamParamState>>(groups);
  if (name == "adamw")
    return std::make_unique<BuiltIn<FusedAdamW, AdamWOptions, AdamWParamState>>(groups);
  if (name == "adagrad")
    return std::make_unique<BuiltIn<FusedAdagrad, AdagradOptions, AdagradParamState>>(groups);
  return std::make_unique<BuiltIn<FusedSgd, SGDOptions, SGDParamState>>(groups);
}

}  // namespace convoy::train
