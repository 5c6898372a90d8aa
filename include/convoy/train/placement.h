// This says where the layers of a network are: what a recipe's [[placement.layers]] means, for
// strategies that split a model. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/slice.h"
#include "convoy/model/blueprint.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// For the check of a strategy (Registry::add_strategy): appends what is wrong with the rules,
// whatever the network. `offered` are the values of `how` that the strategy knows.
void check_placement(const Recipe& recipe, const std::vector<std::string>& offered,
                     std::vector<std::string>& problems);

// This is one layer of a network.
struct LayerPlacement {
  std::string layer;          // its name in the blueprint
  std::string how;            // of the last rule that fits it
  std::vector<double> parts;  // of the partitions, relative to each other; empty: even
  bool operator==(const LayerPlacement&) const = default;
};

// Gives all layers, in the order of the blueprint; those that no rule fits are as `usual` says.
// Throws UsageError naming the rule and the nearest layer when a pattern fits none. (Recipes that
// name a network that is data are checked for that when they are read.)
std::vector<LayerPlacement> place_layers(const PlacementRecipe& placement,
                                         const model::Blueprint& blueprint,
                                         const std::string& usual = "replicated");

// Lists the patterns that fit none of the layers: "placement.layers[0].layers: ...", a line each.
std::vector<std::string> problems_of_patterns(const PlacementRecipe& placement,
                                              const std::string& model,
                                              const std::vector<std::string>& layers);

// Appends the same of a recipe whose network is data; of one that is code its strategy has to say.
void check_patterns(const Recipe& recipe, const Vocabulary& vocabulary,
                    std::vector<std::string>& problems);

// This is what a partition has of a layer that is split by output units: channels of images,
// otherwise the last dimension of the output.
struct LayerPart {
  Slice output;                // of one sample
  std::vector<Slice> tensors;  // of its parameters and buffers; those without units are whole
};
// `inputs` are the shapes of the layer's inputs (model::shapes_of). Throws UsageError for a module
// of the user's, which is not looked into.
LayerPart split_by_output(const model::Node& node, std::span<const model::Shape> inputs,
                          std::span<const double> parts, int index, int partitions);

}  // namespace convoy::train
