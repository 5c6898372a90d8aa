#include "train/recipe/automatic.h"

#include "convoy/base/error.h"
#include "convoy/train/server_job.h"

namespace convoy::train {
namespace {

// Either may be chosen: what both have is one choice.
void check_shared_keys(const Recipe& recipe, std::vector<std::string>& problems) {
  const auto first = recipe.candidates.begin();
  for (auto other = first; other != recipe.candidates.end(); ++other) {
    for (const Option& option : other->second.specification()) {
      const std::string& key = option.key;
      if (!first->second.has(key) || first->second.value(key) == other->second.value(key)) continue;
      problems.push_back(first->first + "." + key + " and " + other->first + "." + key +
                         " differ, and with strategy = \"auto\" either may be used: give both the "
                         "same value");
    }
  }
}

// What its strategy is to say of a recipe that says what was trained: nobody trains with its rates
// any more, so what they would need of the optimizer is no matter.
Recipe without_rates(Recipe recipe) {
  Options& options = recipe.strategy_options;
  if (recipe.strategy == "hybrid" && options.has("rates")) options.set("rates", std::string("own"));
  return recipe;
}

// What is chosen, and what would make the strategies different trainings.
void check_automatic(const Recipe& recipe, const Given& given, std::vector<std::string>& problems) {
  if (recipe.strategy != kAutomatic && recipe.strategy != "hybrid") {
    problems.push_back(
        "placement is \"auto\", which is for strategy = \"hybrid\", or \"auto\"; it is \"" +
        recipe.strategy + "\"");
    return;
  }
  for (const char* key :
       {"hybrid.scheme", "hybrid.senders", "hybrid.passes", "grid.partitions", "grid.replicas"}) {
    if (given(key)) {
      problems.push_back(std::string(key) + " is chosen where " +
                         (recipe.strategy == kAutomatic ? "strategy" : "placement") +
                         " is \"auto\": leave it out");
    }
  }
  if (recipe.strategy != kAutomatic) return;
  check_shared_keys(recipe, problems);
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

Recipe candidate_of(const Recipe& recipe, const std::string& strategy) {
  for (Recipe& candidate : candidates_of(recipe)) {
    if (candidate.strategy != strategy) continue;
    candidate.placement.automatic = false;
    return candidate;
  }
  throw UsageError("the strategy " + strategy + " is not among those that the recipe may come to");
}

Recipe on_one_rank(const Recipe& recipe, const Vocabulary& vocabulary) {
  const bool divides = recipe.strategy == "hybrid" || recipe.strategy == "partitioned" ||
                       is_server_job(recipe.strategy);
  const bool ours = divides || recipe.strategy == "sync";
  const bool several = recipe.grid.partitions > 1 || recipe.grid.replicas > 1;
  const auto sync = vocabulary.strategies.find("sync");
  if (!ours || !several || sync == vocabulary.strategies.end()) return recipe;
  Recipe whole = recipe;
  whole.strategy = "sync";
  whole.strategy_options = Options(sync->second);
  whole.candidates.clear();
  whole.grid = {};
  whole.placement = {};
  return whole;
}

void check_strategy(const Recipe& recipe, const Vocabulary& vocabulary,
                    std::vector<std::string>& problems) {
  const auto check = vocabulary.strategy_checks.find(recipe.strategy);
  if (check != vocabulary.strategy_checks.end() && check->second) check->second(recipe, problems);
}

void check_strategies(const Recipe& recipe, const Given& given, const Vocabulary& vocabulary,
                      bool trains, std::vector<std::string>& problems) {
  if (recipe.automatic()) check_automatic(recipe, given, problems);
  for (const Recipe& candidate : candidates_of(recipe))
    check_strategy(trains ? candidate : without_rates(candidate), vocabulary, problems);
  if (is_server_job(recipe.strategy)) check_strategy(replica_recipe(recipe), vocabulary, problems);
}

}  // namespace convoy::train
