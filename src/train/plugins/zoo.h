// The networks that Convoy brings, as recipes name them.
#pragma once

#include "convoy/train/registry.h"

namespace convoy::train {

// Adds all of model::model_names(), each with its [model.options].
void add_zoo(Registry& registry);

}  // namespace convoy::train
