// The update rule that a recipe's [optimizer] means. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/optim/rule.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Names the optimizers that Convoy brings.
const std::vector<std::string>& built_in_optimizers();
bool is_built_in_optimizer(const std::string& name);

// Not validated; see optim::validate. REQUIRES: a built-in one.
optim::Rule optimizer_rule(const OptimizerRecipe& recipe);

// Says which of the recipe's groups a parameter of this name and number of dimensions is in,
// counted from 1; 0: none fits.
std::size_t group_of(const OptimizerRecipe& recipe, const std::string& name,
                     std::int64_t dimensions);
// Gives the values of a group of the recipe.
OptimizerRecipe values_of_group(const OptimizerRecipe& recipe, const ParameterGroupRecipe& group);

}  // namespace convoy::train
