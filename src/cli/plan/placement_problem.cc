#include "cli/plan/placement_problem.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/made_up_images.h"
#include "cli/plan/network.h"
#include "convoy/base/error.h"
#include "convoy/train/task.h"
#include "train/recipe/automatic.h"
#include "train/run/place.h"

namespace convoy::cli {
namespace {

std::shared_ptr<const train::Task> made_up_task(const train::Recipe& recipe,
                                                const train::Registry& registry) {
  const train::Options& data = recipe.data.train;
  const auto side = [&data](const char* key) { return static_cast<int>(data.integer(key)); };
  const MadeUpImages images({side("channels"), side("height"), side("width")},
                            static_cast<std::size_t>(data.integer("classes")), 1);
  std::shared_ptr<train::Task> task = registry.make_task(recipe);
  task->look(images, nullptr);
  return task;
}

// Of a network by its name, with made-up images.
train::PlacementProblem named_problem(const StepWords& words, int ranks,
                                      const train::Registry& registry) {
  train::PlacementProblem problem;
  problem.recipe = step_recipe(words, ranks, registry);
  problem.network = network_of(problem.recipe, registry);
  problem.inputs = inputs_of(problem.recipe);
  problem.samples_per_rank = images_of_rank(problem.recipe, 0, ranks);
  problem.task = made_up_task(problem.recipe, registry);
  return problem;
}

// Of a user's recipe, with its data. Its plugins are in the registry.
train::PlacementProblem recipe_problem(const PlacementWords& words, int ranks,
                                       const train::RecipeText& text,
                                       const train::Registry& registry) {
  std::vector<std::string> overrides;
  if (words.batch_given) {
    overrides.push_back("training.batch=" + std::to_string(words.step.batch_per_rank * ranks));
  }
  if (words.precision_given) overrides.push_back("precision=" + words.step.precision);
  const std::vector<std::string>& given = words.step.overrides;
  overrides.insert(overrides.end(), given.begin(), given.end());
  const train::Recipe recipe = parse_recipe(text, overrides, registry.vocabulary());
  if (recipe.strategy != "sync" && recipe.strategy != "hybrid" && !recipe.automatic()) {
    throw UsageError(
        "the recipe's strategy is " + recipe.strategy +
        ", and the plan compares sync and hybrid: --set strategy=sync" +
        (recipe.strategy == "partitioned" ? " (`convoy plan partition` is for partitioned)" : ""));
  }
  SeenNetwork seen = see_network(recipe, registry);
  if (!seen.a_row_each) {
    throw UsageError("samples of the task " + recipe.task.name +
                     " are not one row each, as hybrid needs");
  }
  train::PlacementProblem problem;
  problem.recipe = train::candidates_of(recipe).front();
  problem.network = std::move(seen.network);
  problem.inputs = std::move(seen.inputs);
  problem.samples_per_rank = train::samples_per_rank(recipe, *seen.task, *seen.training, ranks);
  problem.optimizer = registry.optimizer(recipe.optimizer.name);
  problem.task = std::move(seen.task);
  return problem;
}

}  // namespace

train::PlacementProblem placement_problem(const PlacementWords& words,
                                          const train::RecipeText* text, int ranks,
                                          const train::Registry& registry) {
  train::PlacementProblem problem = text != nullptr ? recipe_problem(words, ranks, *text, registry)
                                                    : named_problem(words.step, ranks, registry);
  problem.ranks = ranks;
  return problem;
}

}  // namespace convoy::cli
