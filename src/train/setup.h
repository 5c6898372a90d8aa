// What a recipe names, opened and checked. Touches nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "convoy/comm/communicator.h"
#include "convoy/comm/world.h"
#include "convoy/data/dataset.h"
#include "convoy/model/network.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "train/checkpoint/resume.h"

namespace convoy::train {

struct DataSets {
  std::shared_ptr<data::Dataset> training;
  std::shared_ptr<data::Dataset> validation;  // null: the recipe has none
};

// Throws UsageError when ranks see different data, or training and validation don't have the same
// classes. Collective.
DataSets open_data(const comm::Communicator& communicator, const Registry& registry,
                   const DataRecipe& recipe);

// The checkpoint that a run in `folder` goes on from, by open_origin(). Rank 0 decides, and alone
// reads the files: folders may look different from elsewhere. Collective.
Origin find_origin(const comm::Communicator& communicator, const std::string& which,
                   const std::string& folder);

// With new weights, fixed by the recipe's seed, for images of this shape and data of so many
// classes; on the recipe's device and in its layout. Throws UsageError where that doesn't go
// together.
std::shared_ptr<model::Network> make_network(const Registry& registry, const Recipe& recipe,
                                             const data::Shape& shape, std::int64_t classes);

// What the checkpoints of a run have in common; `image`: of what samples become.
Manifest manifest_of(const Recipe& recipe, int world, const data::Dataset& training,
                     const data::Shape& image);

// How a run writes its checkpoints.
CheckpointOptions checkpoint_options(const Recipe& recipe, const comm::World& world);

}  // namespace convoy::train
