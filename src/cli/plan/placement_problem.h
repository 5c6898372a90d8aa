// The training that `convoy plan placement` is about.
#pragma once

#include "cli/bench/step_recipe.h"
#include "convoy/train/planning.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::cli {

struct PlacementWords {
  StepWords step;  // `model` is a network's name, or a recipe's file
  bool batch_given = false, precision_given = false;
};

// For so many ranks. `text` is that of the recipe's file, whose plugins are in the registry, or
// null: then it is a network by its name, with made-up images, whose reader is in the registry.
// Throws UsageError for what makes no sense.
train::PlacementProblem placement_problem(const PlacementWords& words,
                                          const train::RecipeText* text, int ranks,
                                          const train::Registry& registry);

}  // namespace convoy::cli
