// Recipes whose strategy, or whose placement of layers, is chosen where the training begins.
#pragma once

#include <string>
#include <vector>

#include "convoy/train/recipe.h"
#include "train/recipe/fields.h"

namespace convoy::train {

// The strategies that the planner can forecast, one of which "auto" comes to.
inline constexpr const char* kPlannedStrategies[] = {"hybrid", "sync"};

// The recipe with each strategy that it may come to; itself where it names one.
std::vector<Recipe> candidates_of(const Recipe& recipe);

// The one with this strategy, as it is where that was chosen.
Recipe candidate_of(const Recipe& recipe, const std::string& strategy);

// The recipe of a network that was divided among ranks for one rank, which has it whole; itself
// where one rank is enough for its grid, or its strategy is a plugin's.
Recipe on_one_rank(const Recipe& recipe, const Vocabulary& vocabulary);

// Appends what the recipe's strategy says of it.
void check_strategy(const Recipe& recipe, const Vocabulary& vocabulary,
                    std::vector<std::string>& problems);

// Appends what the strategies say that it may come to, and what can't be chosen together. `trains`:
// as of check_values.
void check_strategies(const Recipe& recipe, const Given& given, const Vocabulary& vocabulary,
                      bool trains, std::vector<std::string>& problems);

}  // namespace convoy::train
