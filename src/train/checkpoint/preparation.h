// How the pictures were prepared that the network of a file was trained on.
#pragma once

#include <map>
#include <string>

#include "convoy/train/recipe.h"

namespace convoy::train {

// What to say of a safetensors file with this metadata (those that export_model writes) where the
// recipe's pictures are normalized otherwise than the network's were, or not at all, as those of
// torchvision always are; "" where nothing is to be said.
std::string other_preparation(const std::map<std::string, std::string>& metadata,
                              const DataRecipe& data);

}  // namespace convoy::train
