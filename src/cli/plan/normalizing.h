// Whether several workers train otherwise than one with the same batch.
#pragma once

#include "convoy/train/recipe.h"

namespace convoy::cli {

// Whether the network normalizes over batches, and each rank over its share alone: then updates
// that were counted on one worker are not those of several. Opens the data and makes the network,
// on the processor. Where that can't be done it says no: an answer is there, and is not to be lost.
bool normalizes_shares(const train::Recipe& recipe);

}  // namespace convoy::cli
