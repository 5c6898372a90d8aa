// The keys of [hybrid] in a recipe.
#pragma once

#include <string>
#include <vector>

#include "convoy/train/recipe.h"
#include "train/strategies/hybrid/rates.h"

namespace convoy::train {

struct HybridOptions {
  int senders = 0, passes = 0;  // see plan_rounds
  bool variable_batch = false;
  RateRule rates = RateRule::own;
  double base_batch = 1;  // which the recipe's rates are for
};

std::vector<Option> hybrid_keys();
// Appends what is wrong whatever the network and the number of ranks.
void check_hybrid(const Recipe& recipe, std::vector<std::string>& problems);
// Reads the options of a recipe that was checked.
HybridOptions hybrid_options(const Recipe& recipe);

}  // namespace convoy::train
