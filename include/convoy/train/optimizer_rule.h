// The update rule that a recipe's [optimizer] means. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "convoy/optim/rule.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Gives the optimizers that Convoy brings.
const Kinds<OptimizerKind>& built_in_optimizers();

// Gives the recipe with its optimizer's kind and all of its keys: those that it lacks have their
// defaults. Of a name that nobody knows it stays as it is. Throws std::logic_error for a key that
// the optimizer doesn't have.
OptimizerRecipe with_defaults(OptimizerRecipe recipe);

// Says whether the recipe's optimizer is one of Convoy's rules (OptimizerKind::rule).
bool has_rule(const OptimizerRecipe& recipe);

// Gives that rule, with the recipe's rate. Not validated; see optim::validate. Throws
// std::logic_error where there is none.
optim::Rule optimizer_rule(const OptimizerRecipe& recipe);

// Says which of the recipe's groups a parameter of this name and number of dimensions is in,
// counted from 1; 0: none fits.
std::size_t group_of(const OptimizerRecipe& recipe, const std::string& name,
                     std::int64_t dimensions);
// Gives the values of a group of the recipe.
OptimizerRecipe values_of_group(const OptimizerRecipe& recipe, const ParameterGroupRecipe& group);

}  // namespace convoy::train
