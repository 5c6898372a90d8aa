// The samples of a training on made-up images, for programs that are not Convoy.
#pragma once

#include <cstddef>
#include <string>

#include "convoy/train/recipe.h"

namespace convoy::cli {

// Writes three files into a folder, which have the samples of the first epoch in the order in which
// the recipe's ranks train them: `pixels` with bytes of which images are windows, `begins` with
// where in it the image of each sample begins, planes of channels one after the other, and `labels`
// (both of int32, as this machine has them). Gives how many samples there are. The recipe's data
// are made-up images (add_made_up_images). Throws Failure when a file can't be written.
std::size_t write_ddp_samples(const train::Recipe& recipe, const std::string& folder);

}  // namespace convoy::cli
