#include "train/recipe/automatic.h"

namespace convoy::train {
namespace {

// What is chosen, and what would make the strategies different trainings.
void check_automatic(const Recipe& recipe, const Given& given, std::vector<std::string>& problems) {
  if (recipe.strategy != kAutomatic && recipe.strategy != "hybrid") {
    problems.push_back(
        "placement is \"auto\", which is for strategy = \"hybrid\", or \"auto\"; it is \"" +
        recipe.strategy + "\"");
    return;
  }
  for (const char* key : {"hybrid.scheme", "hybrid.senders", "grid.partitions", "grid.replicas"}) {
    if (given(key)) {
      problems.push_back(std::string(key) + " is chosen where " +
                         (recipe.strategy == kAutomatic ? "strategy" : "placement") +
                         " is \"auto\": leave it out");
    }
  }
  if (recipe.strategy != kAutomatic) return;
  for (const char* key : {"hybrid.variable_batch", "hybrid.rates"}) {
    if (given(key)) {
      problems.push_back(std::string(key) +
                         " makes hybrid another training than sync, so the two are no "
                         "alternatives: with strategy = \"hybrid\" and placement = \"auto\" scheme "
                         "and grid are chosen");
    }
  }
}

}  // namespace

std::vector<Recipe> candidates_of(const Recipe& recipe) {
  if (recipe.strategy != kAutomatic) return {recipe};
  std::vector<Recipe> candidates;
  for (const auto& [strategy, options] : recipe.candidates) {
    Recipe& candidate = candidates.emplace_back(recipe);
    candidate.strategy = strategy;
    candidate.strategy_options = options;
    candidate.candidates.clear();
  }
  return candidates;
}

void check_strategies(const Recipe& recipe, const Given& given, const Vocabulary& vocabulary,
                      std::vector<std::string>& problems) {
  if (recipe.automatic()) check_automatic(recipe, given, problems);
  for (const Recipe& candidate : candidates_of(recipe)) {
    const auto check = vocabulary.strategy_checks.find(candidate.strategy);
    if (check != vocabulary.strategy_checks.end() && check->second)
      check->second(candidate, problems);
  }
}

}  // namespace convoy::train
