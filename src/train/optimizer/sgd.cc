#include "train/recipe/kinds.h"

namespace convoy::train {

void add_sgd(Kinds<OptimizerKind>& kinds) {
  kinds.add({.name = "sgd",
             .doc = "stochastic gradient descent, with momentum or without",
             .options = {momentum_key(),
                         {.key = "dampening",
                          .initial = 0.0,
                          .doc = "the part of a gradient that momentum leaves out",
                          .resume = ResumeRule::free},
                         {.key = "nesterov",
                          .initial = false,
                          .doc = "Nesterov's momentum",
                          .resume = ResumeRule::free}},
             .rule = [](const OptimizerRequest& r) -> optim::Rule {
               return optim::Sgd{.momentum = r.options.number("momentum"),
                                 .dampening = r.options.number("dampening"),
                                 .weight_decay = r.weight_decay,
                                 .nesterov = r.options.flag("nesterov")};
             },
             .on_servers = true});
}

}  // namespace convoy::train
