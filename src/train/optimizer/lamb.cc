#include "train/recipe/kinds.h"

namespace convoy::train {

void add_lamb(Kinds<OptimizerKind>& kinds) {
  kinds.add({.name = "lamb",
             .doc = "Adam with a trust ratio for each parameter (You et al. 2020)",
             .options = {beta1_key(), beta2_key(), eps_key("1e-6"), trust_min_dims_key()},
             .rule = [](const OptimizerRequest& r) -> optim::Rule {
               optim::Lamb rule{.beta1 = r.options.number("beta1"),
                                .beta2 = r.options.number("beta2"),
                                .weight_decay = r.weight_decay};
               if (r.options.number("eps") != 0) rule.eps = r.options.number("eps");
               return rule;
             }});
}

}  // namespace convoy::train
