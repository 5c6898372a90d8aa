// All of Convoy that a training program needs.
#pragma once

#include "convoy/comm/world.h"

namespace convoy {
using comm::World;
using comm::WorldOptions;
}  // namespace convoy
