// The recipe that has strategy "sandblaster" what another has for Downpour SGD. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::cli {

// Whether a program with this vocabulary has the strategy.
bool has_sandblaster(const train::Vocabulary& vocabulary);

// Gives the recipe of a text that is one for Downpour SGD, as the strategy wants it. The method
// makes the updates: the tables [optimizer] and [schedule], and what else it has no use for, are
// left out, and what the optimizer takes of weights at each update (weight_decay) is the strategy's
// l2. Where [sandblaster] doesn't say otherwise, servers are as [downpour] has them. `iterations`:
// it trains for so many, with an evaluation after each.
// Throws UsageError for what the strategy can't do. REQUIRES: has_sandblaster().
train::Recipe sandblaster_recipe(const train::RecipeText& text,
                                 const std::vector<std::string>& overrides,
                                 const train::Vocabulary& vocabulary, const train::Recipe& downpour,
                                 std::int64_t iterations);

}  // namespace convoy::cli
