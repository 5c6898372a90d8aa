// Parts of layers that partitioned.balance chooses, as a recipe notes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/model/balance.h"
#include "convoy/train/partition_rules.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// partitioned.parts: "LAYER: 4 3 3", a text for each layer.
std::vector<std::string> text_of(const model::LayerParts& parts);
// Nothing for a text that is not of this form.
std::optional<model::LayerParts> parts_of(const std::vector<std::string>& texts);

// The rules without what balance makes of them, and their plan.
struct DividedByHand {
  model::PartitionRules rules;
  model::PartitionPlan plan;
};
DividedByHand divided_by_hand(const Recipe& recipe, const model::Blueprint& blueprint,
                              const std::vector<model::Shape>& inputs);

// What a recipe notes, if it fits the plan.
std::optional<model::LayerParts> noted_parts(const Recipe& recipe, const model::PartitionPlan& plan,
                                             const model::Blueprint& blueprint);
// Whether both leave the same to be chosen.
bool balance_alike(const Recipe& a, const Recipe& b);

// Gives the parts with the balances "parameters" and "macs"; with others, those that the plan has.
model::LayerParts counted_parts(const Recipe& recipe, const model::PartitionPlan& plan,
                                const model::Blueprint& blueprint);

}  // namespace convoy::train
