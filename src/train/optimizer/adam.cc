#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

template <class Rule>
optim::Rule adam_rule(const OptimizerRequest& r) {
  Rule rule;
  rule.beta1 = r.options.number("beta1");
  rule.beta2 = r.options.number("beta2");
  if (r.options.number("eps") != 0) rule.eps = r.options.number("eps");
  rule.weight_decay = r.weight_decay;
  rule.amsgrad = r.options.flag("amsgrad");
  return rule;
}

}  // namespace

void add_adam(Kinds<OptimizerKind>& kinds) {
  const std::vector<Option> keys{beta1_key(), beta2_key(), eps_key("1e-8"), amsgrad_key()};
  kinds.add({.name = "adam",
             .doc = "Adam (Kingma and Ba 2015)",
             .options = keys,
             .rule = adam_rule<optim::Adam>,
             .on_servers = true});
  kinds.add({.name = "adamw",
             .doc = "Adam with decoupled weight decay (Loshchilov and Hutter 2019)",
             .options = keys,
             .rule = adam_rule<optim::AdamW>,
             .on_servers = true});
}

}  // namespace convoy::train
