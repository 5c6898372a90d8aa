#include "cli/plan/plan_recipe.h"

#include <algorithm>

namespace convoy::cli {

void make_plain(train::Recipe& recipe) {
  constexpr std::int64_t kNoEnd = 1'000'000'000;
  recipe.threads = std::max<std::int64_t>(recipe.threads, 1);
  recipe.schedule = {};
  recipe.training.epochs = 0;
  recipe.training.steps = kNoEnd;
  recipe.training.target = {};
  recipe.training.noise_every = 0;
  recipe.evaluation.every_epochs = 0;
  recipe.evaluation.every_steps = 0;
  recipe.evaluation.batch = 0;
  recipe.evaluation.training_fraction = 0;
  recipe.checkpoint = {};
  recipe.checkpoint.every_epochs = 0;
  recipe.checkpoint.every_minutes = 0;
  recipe.checkpoint.asynchronous = false;
  recipe.output = {};
  recipe.output.tensorboard = false;
}

std::string compared_part(train::Recipe recipe) {
  make_plain(recipe);
  recipe.name = "plan";
  recipe.seed = 1;
  recipe.threads = 1;
  recipe.training.batch = 1;
  recipe.optimizer.lr = 1;
  recipe.evaluation = {};
  const train::DataRecipe usual;
  recipe.data.threads = usual.threads;
  recipe.data.ahead = usual.ahead;
  recipe.data.store = usual.store;
  recipe.data.store_memory = usual.store_memory;
  recipe.data.groups = usual.groups;
  recipe.data.evaluate = usual.evaluate;
  recipe.data.validation = {};
  recipe.data.has_validation = false;
  return train::print_recipe(recipe, false);
}

PlanDifference difference_from_plan(const std::string& mine, const std::string& of_plan) {
  PlanDifference difference;
  for (const train::RecipeChange& change : train::recipe_changes(mine, of_plan)) {
    if (train::is_of_an_earlier_version(change)) continue;
    const auto& [key, value, value_there] = change;
    const bool place = key.starts_with("data.train.") || key == "plugins";
    std::string& text = place ? difference.places : difference.training;
    text += (text.empty() ? "" : "; ") + key + " is " + (value.empty() ? "missing" : value) +
            ", in the plan it is " + (value_there.empty() ? "missing" : value_there);
  }
  return difference;
}

}  // namespace convoy::cli
