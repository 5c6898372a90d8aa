// What has to be the same on all ranks before training starts.
#pragma once

#include <string>

#include "convoy/comm/communicator.h"
#include "convoy/data/dataset.h"

namespace convoy::train {

// Throws UsageError on every rank, naming a rank and the keys that differ from rank 0's. `printed`
// is this rank's recipe without comments. Collective.
void check_same_recipe(const comm::Communicator& communicator, const std::string& printed);

// Throws UsageError in the same way where ranks have different data under `key` of the recipe.
// Collective.
void check_same_data(const comm::Communicator& communicator, const data::Dataset& dataset,
                     const std::string& key);

}  // namespace convoy::train
