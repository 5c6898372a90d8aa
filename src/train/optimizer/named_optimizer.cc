#include "convoy/train/named_optimizer.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/train/fused_optimizers.h"
#include "convoy/train/optimizer_rule.h"

namespace convoy::train {
namespace {

bool fits(const ParameterGroupRecipe& group, const parallel::NamedTensor& parameter) {
  if (group.max_dims > 0 && parameter.tensor.dim() > group.max_dims) return false;
  if (group.parameters.empty()) return true;
  return std::any_of(group.parameters.begin(), group.parameters.end(),
                     [&](const std::string& pattern) {
                       return fnmatch(pattern.c_str(), parameter.name.c_str(), 0) == 0;
                     });
}

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

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> make(
    std::vector<torch::optim::OptimizerParamGroup> groups) {
  const Options defaults = static_cast<const Options&>(groups.front().options());
  return std::make_unique<Optimizer>(std::move(groups), defaults);
}

using States = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

template <class S>
S* state_of(States& states, const torch::Tensor& parameter, bool make) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (state == nullptr && make) state = std::make_unique<S>();
  return static_cast<S*>(state.get());
}

}  // namespace

NamedOptimizer::NamedOptimizer(const OptimizerRecipe& recipe,
                               std::vector<parallel::NamedTensor> parameters)
    : recipe_(recipe) {
  for (auto& parameter : parameters) {
    if (parameter.tensor.requires_grad()) parameters_.push_back(std::move(parameter));
  }
  if (parameters_.empty()) throw UsageError("the model has no parameter to train");
  // Index 0: what fits no group.
  std::vector<std::vector<torch::Tensor>> members(recipe.groups.size() + 1);
  for (const auto& parameter : parameters_) {
    std::size_t index = 0;
    for (std::size_t g = 0; g < recipe.groups.size() && index == 0; ++g) {
      if (fits(recipe.groups[g], parameter)) index = g + 1;
    }
    members[index].push_back(parameter.tensor);
  }
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (std::size_t g = 0; g < members.size(); ++g) {
    if (members[g].empty()) {
      if (g == 0) continue;
      throw UsageError("optimizer.groups[" + std::to_string(g - 1) +
                       "] fits no parameter that an earlier group has left");
    }
    OptimizerRecipe values = recipe;
    if (g > 0 && recipe.groups[g - 1].weight_decay >= 0) {
      values.weight_decay = recipe.groups[g - 1].weight_decay;
    }
    scales_.push_back(g > 0 ? recipe.groups[g - 1].lr_scale : 1.0);
    auto options =
        std::visit([](const auto& rule) { return options_of(rule); }, optimizer_rule(values));
    groups.emplace_back(members[g], std::move(options));
  }
  if (recipe.name == "adam") {
    optimizer_ = make<FusedAdam, torch::optim::AdamOptions>(std::move(groups));
  } else if (recipe.name == "adamw") {
    optimizer_ = make<FusedAdamW, torch::optim::AdamWOptions>(std::move(groups));
  } else if (recipe.name == "adagrad") {
    optimizer_ = make<FusedAdagrad, torch::optim::AdagradOptions>(std::move(groups));
  } else {
    optimizer_ = make<FusedSgd, torch::optim::SGDOptions>(std::move(groups));
  }
}

void NamedOptimizer::set_learning_rate(double lr) {
  for (std::size_t g = 0; g < scales_.size(); ++g) {
    optimizer_->param_groups()[g].options().set_lr(lr * scales_[g]);
  }
}

std::vector<NamedOptimizer::Slot> NamedOptimizer::slots(const torch::Tensor& parameter,
                                                        bool make) const {
  auto& states = optimizer_->state();
  if (recipe_.name == "adagrad") {
    auto* s = state_of<torch::optim::AdagradParamState>(states, parameter, make);
    return s == nullptr ? std::vector<Slot>{} : std::vector<Slot>{{"sum", &s->sum()}};
  }
  const auto adam = [&](auto* s) {
    std::vector<Slot> slots;
    if (s == nullptr) return slots;
    slots = {{"exp_avg", &s->exp_avg()}, {"exp_avg_sq", &s->exp_avg_sq()}};
    if (recipe_.amsgrad) slots.push_back({"max_exp_avg_sq", &s->max_exp_avg_sq()});
    return slots;
  };
  if (recipe_.name == "adam") {
    return adam(state_of<torch::optim::AdamParamState>(states, parameter, make));
  }
  if (recipe_.name == "adamw") {
    return adam(state_of<torch::optim::AdamWParamState>(states, parameter, make));
  }
  if (recipe_.momentum == 0) return {};
  auto* s = state_of<torch::optim::SGDParamState>(states, parameter, make);
  return s == nullptr ? std::vector<Slot>{}
                      : std::vector<Slot>{{"momentum_buffer", &s->momentum_buffer()}};
}

std::int64_t NamedOptimizer::steps(const torch::Tensor& parameter) const {
  auto& states = optimizer_->state();
  const auto count = [](auto* s) { return s == nullptr ? std::int64_t{0} : s->step(); };
  if (recipe_.name == "adam") {
    return count(state_of<torch::optim::AdamParamState>(states, parameter, false));
  }
  if (recipe_.name == "adamw") {
    return count(state_of<torch::optim::AdamWParamState>(states, parameter, false));
  }
  if (recipe_.name == "adagrad") {
    return count(state_of<torch::optim::AdagradParamState>(states, parameter, false));
  }
  return 0;  // sgd counts none
}

void NamedOptimizer::set_steps(const torch::Tensor& parameter, std::int64_t steps) {
  auto& states = optimizer_->state();
  if (recipe_.name == "adam") {
    state_of<torch::optim::AdamParamState>(states, parameter, true)->step(steps);
  } else if (recipe_.name == "adamw") {
    state_of<torch::optim::AdamWParamState>(states, parameter, true)->step(steps);
  } else if (recipe_.name == "adagrad") {
    state_of<torch::optim::AdagradParamState>(states, parameter, true)->step(steps);
  }
}

void NamedOptimizer::save(State& state) const {
  std::int64_t most = 0;
  for (const auto& parameter : parameters_) {
    for (const Slot& slot : slots(parameter.tensor, false)) {
      if (slot.tensor->defined()) state.optimizer[slot.name + "/" + parameter.name] = *slot.tensor;
    }
    most = std::max(most, steps(parameter.tensor));
  }
  // Parameters that were unused in some steps have fewer; they are named.
  for (const auto& parameter : parameters_) {
    const std::int64_t own = steps(parameter.tensor);
    if (own != most) state.numbers["optimizer.step/" + parameter.name] = static_cast<double>(own);
  }
  state.numbers["optimizer.step"] = static_cast<double>(most);
}

void NamedOptimizer::load(const State& state) {
  const auto number = [&state](const std::string& key, double fallback) {
    const auto found = state.numbers.find(key);
    return found == state.numbers.end() ? fallback : found->second;
  };
  const double most = number("optimizer.step", 0);
  std::size_t used = 0;
  for (const auto& parameter : parameters_) {
    for (const Slot& slot : slots(parameter.tensor, true)) {
      const auto found = state.optimizer.find(slot.name + "/" + parameter.name);
      if (found == state.optimizer.end()) continue;  // not updated yet
      if (found->second.sizes() != parameter.tensor.sizes()) {
        throw UsageError("the checkpoint's optimizer state " + found->first +
                         " has another shape than the parameter");
      }
      *slot.tensor = torch::empty_like(parameter.tensor, torch::MemoryFormat::Preserve)
                         .copy_(found->second)
                         .detach();
      ++used;
    }
    set_steps(parameter.tensor,
              static_cast<std::int64_t>(number("optimizer.step/" + parameter.name, most)));
  }
  if (used != state.optimizer.size()) {
    throw UsageError("the checkpoint holds optimizer state that '" + recipe_.name +
                     "' with this recipe has no use for, e.g. " + state.optimizer.begin()->first +
                     "; resume with the optimizer it was written by");
  }
}

}  // namespace convoy::train
