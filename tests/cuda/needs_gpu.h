// For tests that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include "train/compute/gpu.h"

// Leaves this test out where there is none, and says why. A machine without one is no reason to
// fail, CONVOY_REQUIRE_ALL or not.
#define NEEDS_A_GPU() \
  if (::convoy::train::gpus() == 0) GTEST_SKIP() << ::convoy::train::gpu_problem()
