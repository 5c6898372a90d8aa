// The update rule that a recipe's [optimizer] means. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "convoy/optim/rule.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Those that Convoy brings.
const std::vector<std::string>& built_in_optimizers();
bool is_built_in_optimizer(const std::string& name);

// Not validated; see optim::validate. REQUIRES: a built-in one.
optim::Rule optimizer_rule(const OptimizerRecipe& recipe);

}  // namespace convoy::train
