#include "cli/plan/recipe_options.h"

#include "cli/training/set_option.h"

namespace convoy::cli {

void add_recipe_options(CLI::App& command, RecipeWords& recipe) {
  command.add_option("recipe", recipe.path, "The recipe, a TOML file")
      ->type_name("RECIPE")
      ->required();
  add_set_option(command, recipe.overrides);
}

}  // namespace convoy::cli
