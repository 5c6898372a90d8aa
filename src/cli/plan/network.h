// The network that a plan is about: that of a recipe of made-up images (cli/bench/step_recipe.h).
// Nothing is built.
#pragma once

#include <string>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::cli {

// Throws UsageError when it is code.
model::Blueprint network_of(const train::Recipe& recipe, const train::Registry& registry);
// The shapes of its inputs.
std::vector<model::Shape> inputs_of(const train::Recipe& recipe);
// "alexnet, lenet, ...": for --help.
std::string names_of_networks();

}  // namespace convoy::cli
