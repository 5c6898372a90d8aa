#include "train/recipe/kinds.h"

namespace convoy::train {

void add_adagrad(Kinds<OptimizerKind>& kinds) {
  kinds.add({.name = "adagrad",
             .doc = "Adagrad (Duchi, Hazan and Singer 2011)",
             .options = {eps_key("1e-10"),
                         {.key = "lr_decay",
                          .initial = 0.0,
                          .doc = "the rate is divided by 1 + this x the updates before",
                          .resume = ResumeRule::free},
                         {.key = "initial_accumulator",
                          .initial = 0.0,
                          .doc = "the sum of squares to start from",
                          .resume = ResumeRule::free}},
             .rule = [](const OptimizerRequest& r) -> optim::Rule {
               optim::Adagrad rule;
               rule.lr_decay = r.options.number("lr_decay");
               rule.weight_decay = r.weight_decay;
               rule.initial_accumulator_value = r.options.number("initial_accumulator");
               if (r.options.number("eps") != 0) rule.eps = r.options.number("eps");
               return rule;
             },
             .on_servers = true});
}

}  // namespace convoy::train
