// This says how a recipe with strategy = "partitioned" divides its network: what [partitioned] and
// [[placement.layers]] say, and what partitioned.balance makes of it. Torch-free.
#pragma once

#include <vector>

#include "convoy/model/balance.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/partition.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Throws UsageError naming a layer whose module is made where it is computed (layer::Opaque::make),
// if there is one.
void check_trains_in_parts(const model::Blueprint& blueprint);

// Gives the rules of a recipe that was checked, for inputs of these shapes. Parts that
// partitioned.parts notes are taken if they fit; otherwise the balances "parameters" and "macs"
// choose them, and with "time", which only a run can measure, layers are divided evenly. Throws
// UsageError for rules that don't fit the network.
model::PartitionRules partition_rules(const Recipe& recipe, const model::Blueprint& blueprint,
                                      const std::vector<model::Shape>& inputs);

// Gives the parts in these rules that balance has; none where it is "even", or waits for times.
model::LayerParts balanced_layers(const Recipe& recipe, const model::Blueprint& blueprint,
                                  const std::vector<model::Shape>& inputs);

// Gives the speeds of the partitions, relative to each other: partitioned.speeds, or all 1.
std::vector<double> partition_speeds(const Recipe& recipe);

}  // namespace convoy::train
