// The network that a plan is about: that of a recipe of made-up images (cli/bench/step_recipe.h),
// or of a user's recipe with its data. Nothing is built but what is code.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "convoy/train/task.h"

namespace convoy::cli {

// Throws UsageError when it is code.
model::Blueprint network_of(const train::Recipe& recipe, const train::Registry& registry);
// The shapes of its inputs.
std::vector<model::Shape> inputs_of(const train::Recipe& recipe);

// What a recipe's data makes of its model. Its plugins are in the registry.
struct SeenNetwork {
  model::Blueprint network;
  std::vector<model::Shape> inputs;  // of a sample
  std::shared_ptr<const train::Task> task;
  std::shared_ptr<const data::Dataset> training;
  bool a_row_each = true;  // whether a sample is one row of each input
};
// Opens the data, since sizes and classes are theirs. Throws UsageError for what is wrong with it,
// and when the network is code.
SeenNetwork see_network(const train::Recipe& recipe, const train::Registry& registry);

// Bytes of a network's gradients, as they travel; nothing where the network is code. Its plugins
// are in the registry.
std::optional<double> gradient_bytes_of(const train::Recipe& recipe,
                                        const train::Registry& registry);

// Whether a word names a recipe's file rather than a network.
bool is_recipe_file(const std::string& what);
// "alexnet, lenet, ...": for --help.
std::string names_of_networks();

}  // namespace convoy::cli
