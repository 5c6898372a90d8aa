#include "convoy/train/optimizer_rule.h"

#include <algorithm>

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

}  // namespace

const std::vector<std::string>& built_in_optimizers() {
  static const std::vector<std::string> names{"sgd", "sgd_velocity", "adam", "adamw", "adagrad"};
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
  return optim::Sgd{.lr = r.lr,
                    .momentum = r.momentum,
                    .dampening = r.dampening,
                    .weight_decay = r.weight_decay,
                    .nesterov = r.nesterov};
}

}  // namespace convoy::train
