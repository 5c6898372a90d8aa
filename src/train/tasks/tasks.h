// The tasks that Convoy brings.
#pragma once

#include "convoy/train/registry.h"

namespace convoy::train {

void add_tasks(Registry& registry);

}  // namespace convoy::train
