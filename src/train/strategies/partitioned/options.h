// What a recipe's [partitioned] and [[placement.layers]] mean.
#pragma once

#include <string>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/model/partition.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

std::vector<Option> partitioned_keys();
// Appends what is wrong with the recipe.
void check_partitioned(const Recipe& recipe, std::vector<std::string>& problems);
// Without parts that partitioned.balance chooses. Of a recipe that was checked. Throws UsageError
// for rules that don't fit the network.
model::PartitionRules rules_by_hand(const Recipe& recipe, const model::Blueprint& blueprint);

// Values of partitioned.balance.
inline constexpr const char* kEven = "even";
inline constexpr const char* kByTime = "time";

}  // namespace convoy::train
