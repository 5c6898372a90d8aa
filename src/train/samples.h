// Where the samples of training come from.
#pragma once

#include <memory>

#include "convoy/comm/world.h"
#include "convoy/data/loader.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// A loader from files or, with data.store = "memory", from a store over the world. Collective then.
// Throws UsageError when the data can't be held in memory, and what Loader and Store throw.
std::unique_ptr<data::SampleSource> open_samples(const comm::World& world,
                                                 std::shared_ptr<data::Dataset> dataset,
                                                 const data::TransformOptions& transform,
                                                 const data::LoaderOptions& options,
                                                 const DataRecipe& recipe);

}  // namespace convoy::train
