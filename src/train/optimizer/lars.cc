#include "train/recipe/kinds.h"

namespace convoy::train {

void add_lars(Kinds<OptimizerKind>& kinds) {
  kinds.add({.name = "lars",
             .doc = "layer-wise adaptive rates (You, Gitman and Ginsburg 2017)",
             .options = {momentum_key(),
                         {.key = "eps",
                          .initial = 0.0,
                          .doc = "added to the denominator of the trust ratio",
                          .resume = ResumeRule::free},
                         {.key = "trust_coefficient",
                          .initial = 0.001,
                          .doc = "multiplies the trust ratio",
                          .resume = ResumeRule::free},
                         trust_min_dims_key()},
             .rule = [](const OptimizerRequest& r) -> optim::Rule {
               return optim::Lars{.momentum = r.options.number("momentum"),
                                  .weight_decay = r.weight_decay,
                                  .trust_coefficient = r.options.number("trust_coefficient"),
                                  .eps = r.options.number("eps")};
             }});
}

}  // namespace convoy::train
