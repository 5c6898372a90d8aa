#include "cli/bench/downpour/open.h"

#include "convoy/train/registry.h"
#include "train/compute/gpu.h"

namespace convoy::cli {

Comparison open_comparison(const ComparisonWords& words) {
  train::Registry registry;
  const train::RecipeText text = train::read_recipe_file(words.recipe);
  registry.load_plugins(train::plugins_of(text, words.overrides));
  return make_comparison(text, words, registry.vocabulary(), train::gpus() > 0);
}

}  // namespace convoy::cli
