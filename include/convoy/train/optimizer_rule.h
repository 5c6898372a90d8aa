// The update rule that a recipe's [optimizer] means. Torch-free.
#pragma once

#include "convoy/optim/rule.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Not validated; see optim::validate.
optim::Rule optimizer_rule(const OptimizerRecipe& recipe);

}  // namespace convoy::train
