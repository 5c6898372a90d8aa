// What all commands of a plan take first.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/plan/planned.h"

namespace convoy::cli {

// RECIPE, which has to be given, and --set.
void add_recipe_options(CLI::App& command, RecipeWords& recipe);

}  // namespace convoy::cli
