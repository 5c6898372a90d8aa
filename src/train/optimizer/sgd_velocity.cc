#include "train/recipe/kinds.h"

namespace convoy::train {

void add_sgd_velocity(Kinds<OptimizerKind>& kinds) {
  kinds.add({.name = "sgd_velocity",
             .doc = "sgd with the learning rate inside the velocity (Krizhevsky 2014)",
             .options = {momentum_key()},
             .rule = [](const OptimizerRequest& r) -> optim::Rule {
               return optim::SgdVelocity{.momentum = r.options.number("momentum"),
                                         .weight_decay = r.weight_decay};
             },
             .on_servers = true});
}

}  // namespace convoy::train
