// For tests that mpirun starts as several ranks: sources that go with ranks_main.cc.
#pragma once

#include "convoy/comm/world.h"

namespace convoy::comm {

// Joined once, before the tests: a process can't do it twice.
World& test_world();

}  // namespace convoy::comm
