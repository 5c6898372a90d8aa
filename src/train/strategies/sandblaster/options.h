// What a recipe's [sandblaster] means. Torch-free.
#pragma once

#include <string>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::train {

std::vector<Option> sandblaster_keys();
// Appends what is wrong with a recipe of the strategy.
void check_sandblaster(const Recipe& recipe, std::vector<std::string>& problems);

}  // namespace convoy::train
