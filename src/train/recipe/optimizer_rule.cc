#include "convoy/train/optimizer_rule.h"

#include <fnmatch.h>

#include <algorithm>

#include "convoy/train/downpour.h"

namespace convoy::train {
namespace {

template <class Rule>
Rule adam(const OptimizerRecipe& r) {
  Rule rule;
  rule.lr = r.lr;
  rule.beta1 = r.beta1;
  rule.beta2 = r.beta2;
  if (r.eps != 0) rule.eps = r.eps;
  rule.weight_decay = r.weight_decay;
  rule.amsgrad = r.amsgrad;
  return rule;
}

bool fits(const ParameterGroupRecipe& group, const std::string& name, std::int64_t dimensions) {
  if (group.max_dims > 0 && dimensions > group.max_dims) return false;
  if (group.parameters.empty()) return true;
  return std::any_of(
      group.parameters.begin(), group.parameters.end(),
      [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace

const std::vector<std::string>& built_in_optimizers() {
  static const std::vector<std::string> names{"sgd",     "sgd_velocity", "adam", "adamw",
                                              "adagrad", "lars",         "lamb"};
  return names;
}

bool is_built_in_optimizer(const std::string& name) {
  const std::vector<std::string>& names = built_in_optimizers();
  return std::find(names.begin(), names.end(), name) != names.end();
}

optim::Rule optimizer_rule(const OptimizerRecipe& r) {
  if (r.name == "adam") return adam<optim::Adam>(r);
  if (r.name == "adamw") return adam<optim::AdamW>(r);
  if (r.name == "adagrad") {
    optim::Adagrad rule;
    rule.lr = r.lr;
    rule.lr_decay = r.lr_decay;
    rule.weight_decay = r.weight_decay;
    rule.initial_accumulator_value = r.initial_accumulator;
    if (r.eps != 0) rule.eps = r.eps;
    return rule;
  }
  if (r.name == "sgd_velocity") {
    return optim::SgdVelocity{.lr = r.lr, .momentum = r.momentum, .weight_decay = r.weight_decay};
  }
  if (r.name == "lars") {
    return optim::Lars{.lr = r.lr,
                       .momentum = r.momentum,
                       .weight_decay = r.weight_decay,
                       .trust_coefficient = r.trust_coefficient,
                       .eps = r.eps};
  }
  if (r.name == "lamb") {
    optim::Lamb rule{.lr = r.lr, .beta1 = r.beta1, .beta2 = r.beta2};
    if (r.eps != 0) rule.eps = r.eps;
    rule.weight_decay = r.weight_decay;
    return rule;
  }
  return optim::Sgd{.lr = r.lr,
                    .momentum = r.momentum,
                    .dampening = r.dampening,
                    .weight_decay = r.weight_decay,
                    .nesterov = r.nesterov};
}

std::size_t group_of(const OptimizerRecipe& recipe, const std::string& name,
                     std::int64_t dimensions) {
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    if (fits(recipe.groups[g], name, dimensions)) return g + 1;
  }
  return 0;
}

OptimizerRecipe values_of_group(const OptimizerRecipe& recipe, const ParameterGroupRecipe& group) {
  OptimizerRecipe values = recipe;
  if (group.weight_decay >= 0) values.weight_decay = group.weight_decay;
  if (group.trust_min_dims >= 0) values.trust_min_dims = group.trust_min_dims;
  return values;
}

optim::Rule parameter_rule(const OptimizerRecipe& recipe, const std::string& name,
                           std::int64_t dimensions) {
  const std::size_t index = group_of(recipe, name, dimensions);
  if (index == 0) return optimizer_rule(recipe);
  const ParameterGroupRecipe& group = recipe.groups[index - 1];
  optim::Rule rule = optimizer_rule(values_of_group(recipe, group));
  optim::set_learning_rate(rule, recipe.lr * group.lr_scale);
  return rule;
}

}  // namespace convoy::train
