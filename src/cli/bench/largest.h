// What ranks measured, as one number.
#pragma once

#include <array>

#include "convoy/comm/world.h"

namespace convoy::cli {

// The largest of all ranks' values. Every rank calls it, and gets the same.
inline double largest(const comm::World& world, double value) {
  std::array<double, 1> values{value};
  world.communicator().allreduce(comm::buffer_of(values), comm::ReduceOp::max);
  return values[0];
}

}  // namespace convoy::cli
